"""Every `--json` that a test of palctl brings about fits its documented type. In: CliRunner. Out: an assertion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.answers import ANSWERS
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
            msgspec.json.decode(text, type=ANSWERS[named])
            seen.add(named)
            return
    for word in words:
        if word in ANSWERS:
            msgspec.json.decode(text, type=ANSWERS[word])
            seen.add(word)
            return


@pytest.fixture(autouse=True)
def answers_are_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliRunner, "invoke", _invoke)
