"""Takes the pictures of the docs: the fleet of the tests, in the browser of the tests.

    python -m tests.web.picture docs/report.png
    python -m tests.web.picture docs/page.png /            the live page, at that address of it
    python -m tests.web.picture docs/page-job.png /job/100

Run by hand when a page looks different.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from tests.web.browser import Browser
from tests.web.conftest import page_of
from tests.web.fleets import fill
from tests.web.live import LivePage, Site

SIZE = (1120, 1160)
COLOURS = 96  # of a palette: flat areas and small letters need no more


def main(to: Path, address: str = "") -> None:
    with tempfile.TemporaryDirectory(prefix="pal-picture-") as directory:
        home = Path(directory)
        browser = Browser(home / "profile")
        try:
            if address:
                site = Site(home / "site", waiting=8, settings={"privacy": "open"}).make(fill)
                with LivePage(site) as page:
                    while "not reckoned yet" in page.get("/gained").text:
                        time.sleep(0.2)
                    browser.open(page.url + address, SIZE)
                    browser.picture(home / "whole.png", SIZE[1])
            else:
                browser.open(page_of(home, fill), SIZE)
                browser.picture(home / "whole.png", SIZE[1])
        finally:
            browser.close()
        Image.open(home / "whole.png").convert("RGB").quantize(COLOURS).save(to, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
