"""The documents: links lead somewhere, commands run, and what they name exists."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from benchmarks import results
from pal_slurm.cli.manual import programs
from tests.docs.pages import PAGES, PROJECT, anchors, blocks, name, pages_with, prose, run

RUN = pages_with("run")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, todo = set(), [PROJECT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#\s]+)", prose(page))
        found = [(page.parent / link).resolve() for link in links if not link.startswith("http")]
        todo += [path for path in found if path.is_file()]
        # a link to a directory shows what is in it
        todo += [inner for path in found if path.is_dir() for inner in path.glob("*.md")]
    assert [name(page) for page in PAGES if page not in seen] == []


@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_commands_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    files = [block for block in blocks(page) if " file=" in block.info]
    env = {}
    if files:  # a walk through a change of the package: made in a copy
        source = tmp_path / "source"
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / "pal_slurm", source / "pal_slurm", ignore=ignore)
        for block in files:
            (source / block.info.partition(" file=")[2]).write_text(block.text)
        env["PYTHONPATH"] = str(source)
    home = tmp_path / "home"
    home.mkdir()
    run(page, "run", home, env)


COMMANDS = {command.path: command for program in programs().values() for command in program.walk()}


def mentions() -> Iterator[tuple[str, str]]:
    """Every command line of ours in the documents: in blocks, indented lines and between backquotes."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        code = [block.text for block in blocks(page) if block.info.split(" ")[0] in ("sh", "console", "")]
        code += re.findall(r"^    .*$", text, re.MULTILINE) + re.findall(r"`([^`\n]+)`", prose(page))
        for piece in code:
            for line in piece.splitlines():
                stripped = re.sub(r"\s+#.*$", "", line).strip().removeprefix("$ ")
                if re.match(r"(?:palctl|pald|pal-probe|pal-run)( |$)", stripped):
                    yield name(page), stripped


@pytest.mark.parametrize(("page", "line"), sorted(set(mentions())))
def test_a_command_line_in_the_docs_is_one_that_the_program_takes(page: str, line: str) -> None:
    alone = re.sub(r"\$\([^)]*\)|'[^']*'", "VALUE", line)
    words = iter(re.split(r"[|;&><]| -- ", alone)[0].split())
    command = COMMANDS[(next(words),)]
    options = list(command.options)
    for word in words:
        if word.startswith("-"):
            known = next((option for option in options if word.split("=")[0] in option.names), None)
            assert known is not None, f"{page}: {line}: no option {word}"
            if known.metavar and "=" not in word:
                next(words, None)
        elif command.commands and word[0].islower():
            inner = next((found for found in command.commands if found.name == word), None)
            assert inner is not None, f"{page}: {line}: no command {word}"
            command = inner
            options += command.options


def test_scripts_that_are_named_exist() -> None:
    missing = []
    for page in PAGES:
        for script in re.findall(
            r"(?<![\w/.])((?:scripts|etc|benchmarks|tests|packaging|docker)/[\w./-]*\w)", page.read_text()
        ):
            if not (PROJECT / script).exists() and not list(
                (PROJECT / Path(script).parent).glob(f"{Path(script).name}*")
            ):
                missing.append(f"{name(page)}: {script}")
    assert missing == []


def test_code_that_is_named_exists() -> None:
    """`pal_slurm/...` wherever it stands; between backquotes also a file by the end of its path: `guard/check.py`."""
    rooms = ("pal_slurm", "spank", "tests", "benchmarks", "scripts", "packaging")
    tree = {str(path.relative_to(PROJECT)) for room in rooms for path in (PROJECT / room).rglob("*")}
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        made = {block.info.partition(" file=")[2] for block in blocks(page)}
        named = set(re.findall(r"(?<![\w/.-])(?:pal_slurm|spank)/[\w./*-]*\w", text))
        named |= set(re.findall(r"`([a-z_]\w*(?:/\w+)*\.(?:py|c|lua))`", text))
        for path in named - made:
            if "NAME" not in path and not any(fnmatch(one, path) or f"/{one}".endswith(f"/{path}") for one in tree):
                missing.append(f"{name(page)}: {path}")
    assert missing == []


def test_the_page_of_results_has_each_part_once() -> None:
    page = results.PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- part: (\S+) -->\n.*?<!-- end -->", page, re.DOTALL)) == sorted(results.PARTS)


def test_a_part_of_the_page_of_results_is_replaced_alone() -> None:
    page = "<!-- part: a -->\nold\n<!-- end -->\n<!-- part: b -->\nold\n<!-- end -->\n"
    assert results.put(page, "b", "new") == page[: page.index("b -->")] + "b -->\n\nnew\n\n<!-- end -->\n"
    with pytest.raises(SystemExit, match="part c stands there 0 times"):
        results.put(page, "c", "new")
