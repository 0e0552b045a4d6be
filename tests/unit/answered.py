"""Every `--json` that a test of palctl brings about fits its documented type. In: CliRunner. Out: an assertion."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.answers import ANSWERS, schema
from pal_slurm.cli.palctl import palctl

_plain = CliRunner.invoke
seen: set[str] = set()


def _invoke(self: CliRunner, cli: Any, args: Any = None, *more: Any, **options: Any) -> Result:
    result = _plain(self, cli, args, *more, **options)
    if cli is palctl and isinstance(args, Sequence) and "--json" in args and result.output[:1] in ("[", "{"):
        judge(list(map(str, args)), result.stdout)
    return result


def judge(words: Sequence[str], text: str) -> None:
    """`simulate --json FILE` prints none."""
    for named in (" ".join(pair) for pair in zip(words, [*words[1:], ""], strict=True)):
        if named in ANSWERS:
            _fits(named, text)
            return
    for word in words:
        if word in ANSWERS:
            _fits(word, text)
            return


def _fits(command: str, text: str) -> None:
    """And nothing is there that its type does not know."""
    read = msgspec.json.decode(text, type=ANSWERS[command])
    assert json.loads(msgspec.json.encode(read)) == json.loads(text)
    if command == "scores":
        row = schema(command)["items"]
        for key in {key for one in read for key in one}:
            assert key in row["properties"] or any(re.search(one, key) for one in row["patternProperties"]), key
    seen.add(command)


@pytest.fixture(autouse=True)
def answers_are_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliRunner, "invoke", _invoke)
