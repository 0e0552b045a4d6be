"""The fleet's page without a browser: colours, folds, small pictures; hostile texts stay texts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from math import isfinite

import pytest

from pal_slurm.report import drawing, heat
from pal_slurm.report.figures import (
    AppPoint,
    Bar,
    Coverage,
    DriftedGpu,
    Fleet,
    Gpu,
    Histogram,
    Mark,
    NightCount,
    NightLevel,
    OwnScore,
    RaisedAlert,
    ScoreSpread,
    State,
    Trend,
    Worst,
)
from pal_slurm.report.html import TEMPLATES, page
from tests.web.fleets import HARM


def gpu(node: str = "n1", slot: int = 0, score: float | None = 1.0, model: str = "m", uuid: str = "u") -> Gpu:
    mark = Mark(State.NEVER) if score is None else Mark(State.FRESH, score, score, score, 1, 0.5)
    return Gpu(node, slot, uuid, model, {"A": mark})


def test_a_score_on_an_edge_belongs_to_the_slower_side() -> None:
    assert [heat.level(s) for s in (0.0, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2, 1.3, 50.0)] == [
        0, 1, 2, 2, 3, 4, 5, 6, 7, 7,
    ]  # fmt: skip
    assert len(heat.LEGEND) == len(heat.EDGES) + 1


def test_folds_go_by_model_and_number() -> None:
    names = [f"n{i}" for i in range(1, 131)]
    gpus = [gpu(name, slot, model="a") for name in sorted(names) for slot in (0, 2)]
    found = heat.folds([*gpus, gpu("x1", model="b")], ["A"])
    assert [(f.model, f.name, f.nodes, f.gpus) for f in found] == [
        ("a", "n[1-64]", 64, 128), ("a", "n[65-128]", 64, 128), ("a", "n[129-130]", 2, 4), ("b", "x1", 1, 1),
    ]  # fmt: skip
    rows = found[0].sheets[0].rows
    assert [row.node for row in rows[:3]] == ["n1", "n2", "n3"]
    assert [cell.text if cell else None for cell in rows[0].cells] == ["1.00", None, "1.00"]


def test_a_strip_draws_each_gpu_once_where_it_sits() -> None:
    scores = {("n1", 0): 1.0, ("n2", 0): 1.0, ("n3", 0): 1.4, ("n1", 1): 1.35, ("n3", 1): None}
    (fold,) = heat.folds([gpu(node, slot, score) for (node, slot), score in scores.items()], ["A"])
    (strip,) = fold.strips
    assert dict(strip.paths) == {"h2": "M0 0h2", "h7": "M2 0h1M0 1h1", "nn": "M2 1h1"}
    assert (strip.height, strip.title) == (2, "class A: 2 GPUs at 1.30 or above")
    assert fold.worst == "slowest 1.40 (class A) at n3:g0"


def test_names_are_folded_only_where_that_means_the_same() -> None:
    assert heat.named(["n2", "n10", "n1"], 60) == "n[1-2,10]"
    assert heat.named(["n1!n2", "n[1", "@all"], 60) == "@all, n1!n2, n[1"
    assert heat.named([f"a{i}-{i * 7}" for i in range(50)], 40).endswith(" more")
    assert heat.ends(["a1", "a2", "b7"]) == "a1 to b7"
    assert heat.ends(["n1,n2"]) == "n1,n2"


def test_apps_names_stand_apart_or_not_at_all() -> None:
    apps = [AppPoint(f"application-{i}", "A", "x", i, None, 0.5, 0.5 + i / 1000, None, None) for i in range(30)]
    dots = drawing.plane([*apps, AppPoint("unseen", "A", "x", 0, None, None, None, None, None)])
    assert len(dots) == 30
    boxes = []
    for dot in dots:
        if dot.anchor:
            width = len(dot.app.app) * 5.6
            left = dot.label_x - {"start": 0, "end": width, "middle": width / 2}[dot.anchor]
            boxes.append((left, dot.label_y))
    assert 1 <= len(boxes) < 30
    assert all(abs(a[1] - b[1]) >= 11 or abs(a[0] - b[0]) >= 60 for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("scores", [(1.0,), (0.06, 49.0), (1.0, 1.0000001)])
def test_pictures_of_odd_figures_stay_inside(scores: tuple[float, ...]) -> None:
    history = tuple(OwnScore(f"2026-01-0{i + 1}", s) for i, s in enumerate(scores))
    worst = Worst("n", 0, "u", "m", "A", scores[-1], None, None, None, 1, None, None, None, None, None, 0.1, False,
                  {}, history)  # fmt: skip
    axis = drawing.interval(worst, scores[-1])
    assert all(0 <= v <= 300 for v in (axis.low, axis.at, axis.high, *(t.at for t in axis.ticks)))
    trend = drawing.trend(
        Trend("A", "x", "gpu", "m", tuple(NightLevel(o.night, o.score, 1, 1, 0, 0) for o in history), None)
    )
    for chart in filter(None, (drawing.history(worst.history), trend)):
        assert all(isfinite(p.x) and 0 <= p.y <= chart.bottom and 0 <= p.x <= 340 for p in chart.points)


class Reader(HTMLParser):
    """Elements and attributes as a browser would find them, and the text between."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def every_text(t: str) -> Fleet:
    """A fleet in which whatever is a text is that one."""
    mark = {t: Mark(State.FRESH, 1.4, 1.3, 1.5, 2, 1.0)}
    nights = (NightLevel("2026-01-01", 1.0, 1, 5, 0, 0), NightLevel("2026-01-02", 1.1, 1, 5, 1, 0))
    return Fleet(
        made_at=1_790_000_000.0,
        clusters=(t,),
        classes=(t,),
        stale_after_days=30.0,
        window_nights=28,
        models={t: 1, "other": 1},
        nodes=2,
        gpus=(Gpu(t, 0, t, t, mark), Gpu(f"{t}2", 1, t, "other", {t: Mark(State.NEVER)})),
        coverage=(Coverage(t, 1, 0, 1),),
        by_night=(NightCount("2026-01-01", 1), NightCount("2026-01-02", 1)),
        spread=(ScoreSpread(t, t, 1, 1.0, 1.0, 1.0, 1.4, 0.5),),
        histograms=(Histogram(t, 1, 0, 0, (Bar(0.995, 1.005, 1),)),),
        trends=(Trend(t, t, "node", t, nights, 1.1),),
        drift=(DriftedGpu(t, 0, t, t, 1.0, 1.1, 6),),
        outliers=1,
        worst=(
            Worst(t, 0, t, t, t, 1.4, 1.3, 1.5, 2, 10, 1, 1, 1.01, True, 3, 0.5, True, {t: 1.1},
                  (OwnScore("2026-01-01", 1.4), OwnScore("2026-01-02", 1.4))),
        ),
        apps=(
            AppPoint(t, t, t, 3, 0.9, 0.5, 0.5, 0.1, 0.1),
            AppPoint(f"{t}2", "?", t, 0, None, None, None, None, None),
        ),
        alerts=(RaisedAlert(1_790_000_000.0, t, t),),
    )  # fmt: skip


@pytest.mark.parametrize("text", [*HARM, "\ud800", "a\nb\x00c", "</script>", "--><!--", "]]>"])
def test_no_text_becomes_an_element_or_an_attribute(text: str) -> None:
    plain, found = read(page(every_text("plain"))), read(page(every_text(text)))
    assert found.tags == plain.tags
    assert found.attributes == plain.attributes
    escaped = text if text.isprintable() else text.encode("unicode_escape").decode()
    assert escaped in found.text
    page(every_text(text)).encode()


def test_the_policy_allows_the_style_sheet_alone() -> None:
    html = page(every_text("x"))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; base-uri 'none'; form-action 'none'", policy
    )
    assert {"script", "img", "link", "iframe"}.isdisjoint(read(html).tags)
    assert {"style", "onclick", "onload", "src"}.isdisjoint(read(html).attributes)
    assert "url(" not in html
    assert "@import" not in html


def test_every_template_is_used_and_escapes() -> None:
    texts = {path.name: path.read_text() for path in TEMPLATES.iterdir()}
    everything = "".join(texts.values())
    assert [name for name in texts if name not in everything and name not in ("page.html", "style.css")] == []
    assert everything.count("|safe") == 1  # the style sheet
    assert "autoescape" not in everything
