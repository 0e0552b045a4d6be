"""The fleet's page. In: a Fleet. Out: one HTML text that needs nothing else: no scripts, no fonts, no network.

Everything that comes from outside passes jinja's autoescape, and what can't be printed is shown escaped (P9). The
page's own Content-Security-Policy allows its one style sheet, by hash, and nothing more: should something get past,
the browser still runs and loads nothing.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pal_slurm import __version__
from pal_slurm.errors import ConfigError
from pal_slurm.report import drawing, heat
from pal_slurm.report.figures import Fleet, State
from pal_slurm.report.text import clock, shown
from pal_slurm.scores.drift import LEAST_NIGHTS

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
MOST_TRENDS = 24  # kernels and models that get a picture
MOST_APPS = 200
MOST_DRIFTS = 20
MOST_PLACES = 400  # characters of a list of nodes


def page(fleet: Fleet) -> str:
    """The whole document; ConfigError where jinja2 is not installed."""
    env = environment()
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    slowest = max((worst.score for worst in fleet.worst), default=1.0)
    folds = heat.folds(fleet.gpus, fleet.classes)
    rendered: str = env.get_template("page.html").render(
        fleet=fleet,
        version=__version__,
        made=clock(fleet.made_at, "%Y-%m-%d %H:%M %Z"),
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        folds=folds,
        unfolded=len(folds) <= len(fleet.models) and len(fleet.gpus) * len(fleet.classes) <= heat.DETAILED,
        legend=list(enumerate(heat.LEGEND)),
        share_fresh=sum(c.fresh for c in fleet.coverage) / (len(fleet.gpus) * len(fleet.classes)),
        places={state: _places(fleet, state) for state in (State.STALE, State.NEVER)},
        histograms=[drawing.histogram(h) for h in fleet.histograms],
        trends=[(t, drawing.trend(t)) for t in fleet.trends[:MOST_TRENDS]],
        by_night=drawing.by_night(fleet.by_night, len(fleet.gpus)),
        worst=[(w, drawing.interval(w, slowest), drawing.history(w.history)) for w in fleet.worst],
        changed=len({drift.uuid for drift in fleet.drift}),
        drift=fleet.drift[:MOST_DRIFTS],
        least_nights=LEAST_NIGHTS,
        apps=fleet.apps[:MOST_APPS],
        plane=drawing.plane(fleet.apps[:MOST_APPS]),
        ticks=[(v, drawing.scale(0, 1, drawing.LEFT, drawing.RIGHT)(v)) for v in (0.0, 0.25, 0.5, 0.75, 1.0)],
    )
    return rendered


def environment(*more: Path, wants: str = "palctl report --html", extra: str = "report") -> Environment:
    """`more`: where else templates are; `wants` needs them, and `extra` brings jinja2 along."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise ConfigError(f"{wants} needs jinja2: pip install 'pal-slurm[{extra}]'") from error
    env = Environment(
        loader=FileSystemLoader([*more, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    env.filters["number"] = _number
    env.filters["day"] = clock
    env.globals["level"] = heat.level
    return env


def _printable(value: object) -> object:
    """Applied to whatever a template prints; markup of the templates' own stays as it is."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return shown(value)
    return value


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _places(fleet: Fleet, state: State) -> str:
    """Nodes with a GPU in that state for any class."""
    nodes = {gpu.node for gpu in fleet.gpus if any(mark.state is state for mark in gpu.marks.values())}
    return heat.named(nodes, MOST_PLACES) if nodes else ""
