"""What each command does. In: parsed options. Out: an exit code; documents go where `--output` says."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import FrameType

from pal_slurm import __version__
from pal_slurm.probe import importers, kernels, limits, reducing, reporting, spool, watching
from pal_slurm.probe.bench import Bench, Settings, Stopped
from pal_slurm.probe.clock import SystemClock
from pal_slurm.probe.cooling import CoolDown
from pal_slurm.probe.document import ALL_REDUCE, Document, Fault, Kernel, ReduceDocument, to_json
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.inventory import PATIENCE_S, Inventory, take
from pal_slurm.probe.reading import Reading, read, read_file
from pal_slurm.probe.runner import WaitLimits
from pal_slurm.probe.sampling import Background
from pal_slurm.probe.words import JOB, plain

MADE_BY = f"pal-probe {__version__}"
EXIT_NOTHING = 69  # not one device could be asked, or nothing was measured


def inventory(options: Namespace) -> int:
    begun = time.time()
    taken = take(options.devices, options.patience)
    document = Document(
        "inventory", MADE_BY, begun, time.time(), _job(), devices=taken.devices, faults=taken.faults
    )  # fmt: skip
    return _deliver(document, options.output, 0 if taken.devices else EXIT_NOTHING)


def bench(options: Namespace) -> int:
    begun = time.time()
    specs = [kernels.parse(text) for text in options.kernel]
    if len({spec.app for spec in specs}) < len(specs):
        raise BadInput("--kernel: two kernels have the same name; give one another, as in other=gemm:n=4096")
    settings = Settings(
        rounds=options.rounds,
        scopes=("gpu", "node") if options.scope == "both" else (options.scope,),
        warm_s=options.warm,
        run_s=options.run,
        most_s=options.most,
        sample_s=options.sample,
        cooling=CoolDown(below_c=options.cool_to, longest_s=options.cool_wait),
        patience=WaitLimits(prepare_s=1.5 * options.patience, run_s=options.patience),
    )
    taken = take(options.devices, min(PATIENCE_S, options.patience))
    work = _measure(taken, specs, settings)
    document = replace(
        work, kind="bench", begun_at=begun, ended_at=time.time(), job=_job(), devices=taken.devices,
        kernels=tuple(Kernel(spec.app, plain(spec.text, 4000), spec.cls) for spec in specs),
    )  # fmt: skip
    return _deliver(document, options.output, 0 if document.runs else EXIT_NOTHING)


def _measure(taken: Inventory, specs: list[kernels.Spec], settings: Settings) -> Document:
    def stop(number: int, _frame: FrameType | None) -> None:
        raise Stopped(f"{signal.Signals(number).name} came: the rest of the rounds was left out")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        patience = min(PATIENCE_S, settings.patience.run_s)
        with Background(taken, settings.sample_s, patience) as samples:
            work = Bench(taken, specs, settings, SystemClock(), samples)
            work.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    faults: tuple[Fault, ...] = (*taken.faults, *work.faults, *samples.faults)
    return Document("bench", MADE_BY, 0.0, 0.0, runs=tuple(work.runs), faults=faults)


def watch(options: Namespace) -> int:
    plan = watching.WatchPlan(
        source=options.devices,
        spool=options.spool,
        job=options.job or None,
        interval=options.interval,
        line_s=options.line,
        part_s=options.part,
        socket=_socket(options),
        made_by=MADE_BY,
        command=tuple(options.words),
    )
    return watching.watch(plan, SystemClock())


def _socket(options: Namespace) -> Path:
    """A job that watches itself has a socket of its own: the service's directory belongs to root."""
    if options.socket or not options.job:
        return Path(options.socket or reporting.socket_path())
    return Path(tempfile.gettempdir()) / f"pal-probe-{os.getuid()}-{secrets.token_hex(6)}.sock"


def step(options: Namespace) -> int:
    reporting.report_once(options.seconds, options.count, options.app)
    return 0


def bring_in(options: Namespace) -> int:
    known = []
    for path in options.inventory:
        known += list(_document(path).devices)
    measured_at = options.measured_at if options.measured_at is not None else options.measured_at_default()
    context = importers.Context(tuple(known), options.node, measured_at)
    found = importers.bring_in(options.format, _bytes(options.file), context)
    document = replace(found, made_by=MADE_BY)
    return _deliver(document, options.output, 0)


def all_reduce(options: Namespace) -> int:
    sizes = sorted(set(options.size or reducing.SIZES_MIB))
    if sizes[-1] > limits.REDUCED_BYTES[1] // reducing.MIB:
        raise BadInput(f"--size {sizes[-1]}: {limits.REDUCED_BYTES[1] // reducing.MIB} MiB at most")
    who = reducing.ranks_of(options, os.environ)
    document = reducing.measure(who, sizes, options.rounds, options.patience, MADE_BY)
    return 0 if document is None else _deliver(document, options.output, 0)


def check(options: Namespace) -> int:
    bad = 0
    for path in options.files:
        reading = read_file(path, time.time())
        for defect in reading.defects:
            sys.stdout.write(plain(f"{path}: {defect}", 4000) + "\n")
        bad += bool(reading.defects)
        if not reading.defects:
            sys.stdout.write(plain(f"{path}: {_summary(reading)}", 4000) + "\n")
    return BadInput.exit_code if bad else 0


def _summary(reading: Reading) -> str:
    if reading.part is not None:
        part = reading.part
        return f"job {part.job} part {part.part}: {len(part.usage)} lines of use, {len(part.steps)} of steps"
    if reading.reduces is not None:
        r = reading.reduces
        return f"all-reduce: {len(r.nodes)} ranks on {len(set(r.nodes))} nodes, {len(r.reduced)} sizes"
    assert reading.document is not None
    d = reading.document
    return f"{d.kind}: {len(d.devices)} GPUs, {len(d.runs)} runs, {len(d.checks)} checks, {len(d.faults)} faults"


def list_kernels(_options: Namespace) -> int:
    for name in kernels.names():
        sys.stdout.write(f"{name:<12} {kernels.about(name)}\n")
    return 0


def _deliver(document: Document | ReduceDocument, output: str, code: int) -> int:
    text = to_json(document)
    defects = read(text.encode(), document.ended_at).defects
    if defects:
        raise BadInput(f"the result would not be a valid document: {'; '.join(str(d) for d in defects[:3])}")
    for fault in document.faults if isinstance(document, Document) else ():
        where = f"slot {fault.slot}: " if fault.slot is not None else f"{fault.uuid}: " if fault.uuid else ""
        sys.stderr.write(plain(f"pal-probe: {where}{fault.what}", 4000) + "\n")
    if output == "-":
        sys.stdout.write(text)
        return code
    path = Path(output)
    if path.is_dir() or output.endswith("/"):
        if isinstance(document, ReduceDocument):
            kind, node = ALL_REDUCE, document.nodes[0]
        else:
            kind, node = document.kind, document.devices[0].node if document.devices else "no-devices"
        path = path / f"{kind}-{node}-{document.begun_at:.0f}-{os.getpid()}.json"
    spool.write(path, text)
    return code


def _job() -> str | None:
    job = os.environ.get("SLURM_JOB_ID", "")
    return job if JOB.fullmatch(job) else None


def _document(path: Path) -> Document:
    reading = read_file(path, time.time())
    if reading.document is None:
        why = "; ".join(str(defect) for defect in reading.defects[:3]) or "it is a job's file"
        raise BadInput(f"{path}: not a document of pal-probe: {why}")
    return reading.document


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.MOST_TOOL_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
