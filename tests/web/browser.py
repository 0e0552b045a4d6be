"""A real browser without a screen. In: pages on disk. Out: what it shows, said on its console, and asked for.

Chromium and its driver are Debian's; nothing is downloaded, and the browser has a profile of its own for each session.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

BROWSER, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
WIDE, PHONE = (1280, 900), (360, 740)


class Browser:
    def __init__(self, profile: Path) -> None:
        options = ChromeOptions()
        options.binary_location = str(BROWSER)
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=Service(str(DRIVER)))
        self.driver.set_page_load_timeout(120)
        self.driver.set_script_timeout(120)

    def close(self) -> None:
        self.driver.quit()

    def open(self, page: Path | str, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        """Load a page, from disk or from an address; what was logged before is forgotten."""
        self.driver.get("about:blank")
        self.resize(size)
        self.media(dark=dark)
        self.console()
        self.requests()
        self.driver.get(page.as_uri() if isinstance(page, Path) else page)

    def resize(self, size: tuple[int, int]) -> None:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.command("Emulation.setDeviceMetricsOverride", metrics)

    def media(self, dark: bool = False, media: str = "") -> None:
        wanted = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", {"media": media, "features": wanted})

    def command(self, name: str, options: Mapping[str, object] | None = None) -> Any:
        return self.driver.execute_cdp_cmd(name, dict(options or {}))

    def ask(self, script: str, *arguments: object) -> Any:
        """What a script of the test's own returns; the driver's scripts are not bound by the page's policy."""
        return self.driver.execute_script(script, *arguments)

    def console(self) -> list[str]:
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Every address that was asked for since the last time."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))  # type: ignore[no-untyped-call]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def picture(self, path: Path, height: int | None = None) -> Path:
        """A screenshot of the whole page, or of its upper part."""
        size = self.ask("return [document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], height or 16_000), "scale": 1}
        shot = self.command("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip, "format": "png"})
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def pdf(self) -> bytes:
        return base64.b64decode(self.command("Page.printToPDF", {"printBackground": True})["data"])
