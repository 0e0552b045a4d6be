"""What a command of palctl imports, runs and decides. In: its words. Out: a JSON object on standard output.

    python -m tests.one_scheduler [--beside FILE.py] simulate TRACE ...    a command
    python -m tests.one_scheduler pald                                     what pald imports, for comparison

`--beside`: a module that is put into pal_slurm first, and that the command then schedules by: it has `put(home)`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

OURS, PLANS = "pal_slurm.", "pal_slurm.policy."


def main(words: list[str]) -> dict[str, list[Any]]:
    if words == ["pald"]:
        import_pald()
        return {"imports": imported()}
    from pal_slurm.cli.palctl import palctl

    if words[0] == "--beside":
        put_beside(Path(words[1]))
        words = words[2:]
    watch = Watch()
    palctl.main(words, standalone_mode=False)
    return {"imports": imported(), **watch.seen()}


Slots = tuple[tuple[str, tuple[int, ...]], ...]  # by node


class Watch:
    """While the engine runs: which modules run, who makes decisions, which starts no decision stands for."""

    def __init__(self) -> None:
        from pal_slurm.model import Decision
        from pal_slurm.policy import Planner
        from pal_slurm.sim.engine import Engine

        self._decided: set[tuple[int, Slots]] = set()
        self._makers: set[str] = set()
        self._runs: set[str] = set()
        self._undecided: list[tuple[int, tuple[int, ...]]] = []
        after(Decision, "__init__", self._on_decision)
        after(Planner, "starts", self._on_plain)
        after(Engine, "start", self._on_start)
        run = Engine.run

        def profiled(engine: Engine, *args: Any) -> Any:
            sys.setprofile(self._on_call)
            try:
                return run(engine, *args)
            finally:
                sys.setprofile(None)

        Engine.run = profiled  # type: ignore[method-assign, assignment]

    def seen(self) -> dict[str, list[Any]]:
        return {
            "runs": sorted(self._runs), "makers": sorted(self._makers), "undecided": self._undecided[:5],
            "decided": [len(self._decided)],
        }  # fmt: skip

    def _on_call(self, frame: FrameType, event: str, arg: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith(OURS) and frame.f_code.co_flags & CO_OPTIMIZED:
            self._runs.add(name)

    def _on_decision(self, maker: str, decision: Any, *_: Any) -> None:
        self._makers.add(maker)
        if decision.placement is not None and maker.startswith(PLANS):
            self._decided.add((decision.job, places(decision.placement)))

    def _on_plain(self, maker: str, planner: Any, job: Any, where: Any) -> None:
        """The decision of a start that Slurm's own rule places names no GPUs."""
        if maker.startswith(PLANS):
            self._decided.add((job.id, places(where)))

    def _on_start(self, maker: str, engine: Any, run: Any, gpus: tuple[int, ...]) -> None:
        cluster, by_node = engine._cluster, dict[str, tuple[int, ...]]()
        for gpu in sorted(gpus):
            name = cluster.node_names[gpu // cluster.width]
            by_node[name] = (*by_node.get(name, ()), gpu % cluster.width)
        if (run.work.id, tuple(sorted(by_node.items()))) not in self._decided:
            self._undecided.append((run.work.id, gpus))


def after(owner: type, name: str, note: Any) -> None:
    """Tell it of each call: the caller's module, and the arguments."""
    plain = getattr(owner, name)

    def noted(self: Any, *args: Any, **named: Any) -> Any:
        found = plain(self, *args, **named)
        note(sys._getframe(1).f_globals["__name__"], self, *args)
        return found

    setattr(owner, name, noted)


def places(where: Any) -> Slots:
    return tuple(sorted((node, tuple(sorted(slots))) for node, slots in zip(where.nodes, where.gpus, strict=True)))


def import_pald() -> None:
    """All of pald, and each policy that pal.yaml can name."""
    import pal_slurm.cli.pald
    import pal_slurm.daemon.main  # noqa: F401
    from pal_slurm.config.composition import composition_of
    from pal_slurm.config.schema import PolicySection
    from pal_slurm.policy.composition import composition_names

    for name in composition_names():
        composition_of(PolicySection(name=name))


def imported() -> list[str]:
    return sorted(modules())


def modules() -> Iterator[str]:
    for name, module in sys.modules.items():
        file = getattr(module, "__file__", None) or "__init__.py"
        if name.startswith(OURS) and not file.endswith("__init__.py"):
            yield name


def put_beside(path: Path) -> None:
    """As if the file stood where its first line says: `# pal_slurm/sim/twin.py`."""
    name = path.read_text().splitlines()[0].removeprefix("# ").removesuffix(".py").replace("/", ".")
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.put()


if __name__ == "__main__":
    out = sys.stdout
    sys.stdout = sys.stderr
    json.dump(main(sys.argv[1:]), out)
