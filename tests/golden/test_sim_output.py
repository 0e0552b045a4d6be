"""`palctl simulate` and `palctl gain` as people see them: text and JSON, compared with files kept beside this one.

`PAL_UPDATE_GOLDEN=1 pytest tests/golden/test_sim_output.py` writes them anew; look at the difference before you commit.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.published.policies import Published
from pal_slurm.cli.commands.simulate import command as simulate
from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput
from tests.unit.answered import judge

HERE = Path(__file__).parent / "sim"
CPU = re.compile(r"simulated in, CPU s.*\n")


def run(*words: str) -> Result:
    return CliRunner().invoke(palctl, list(words), catch_exceptions=True)


def compare(name: str, text: str) -> None:
    path = HERE / name
    if os.environ.get("PAL_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_table_of_a_synthetic_comparison() -> None:
    result = run(
        "simulate", "synthetic:jobs=60,per_hour=9", "--cluster", "4x4", "--repeat", "3", "--restart-cost", "30"
    )
    assert result.exit_code == 0, result.output
    compare("synthetic.txt", CPU.sub("", result.output))


def test_the_table_in_rounds_with_the_published_policies() -> None:
    words = [f"--policy=artifact/{name}" for name in ("pal", "pm-first", "packed-sticky", "packed-nonsticky")]
    result = CliRunner().invoke(
        simulate,
        ["synthetic:jobs=60,per_hour=9", "--cluster", "4x4", "--round", "360", *words, "--policy=reassign"],
        obj=Published(),
    )
    assert result.exit_code == 0, result.output
    compare("rounds.txt", CPU.sub("", result.output))


def test_the_json_has_every_figure_and_its_definition(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    result = run(
        "simulate",
        "synthetic:jobs=30",
        "--cluster",
        "4x4",
        "--policy",
        "packed",
        "--policy",
        "pal",
        "--json",
        str(path),
    )
    assert result.exit_code == 0, result.output
    first, second = json.loads(path.read_text())
    assert (first["policy"], second["policy"]) == ("packed", "pal")
    figures = (
        "jobs",
        "avg_jct_s",
        "median_jct_s",
        "p99_jct_s",
        "makespan_s",
        "utilization",
        "shared",
        "moves",
        "restarts",
        "starts_per_job",
        "restarts_per_job",
        "p99_slowdown",
        "comm_s",
        "cpu_s",
    )
    classes = ("1", "2-4", "5-8", "9-16", ">16")
    for entry in (first, second):
        assert all(isinstance(entry[name], int | float) for name in figures)
        assert set(entry["definitions"]) == {*figures, "sizes"}
        sizes = entry["sizes"]
        assert all(set(of) == {"gpus", "jobs", "avg_jct_s", "p99_jct_s"} and of["jobs"] > 0 for of in sizes)
        assert len(sizes) > 1 and [of["gpus"] for of in sizes] == [
            c for c in classes if c in {of["gpus"] for of in sizes}
        ]
        assert sum(of["jobs"] for of in sizes) == 30
        mean = sum(of["jobs"] * of["avg_jct_s"] for of in sizes) / 30
        assert mean == pytest.approx(entry["avg_jct_s"]) and max(of["p99_jct_s"] for of in sizes) >= entry["p99_jct_s"]
    assert first["jobs"] == 30
    assert first["ratio_to_first"]["avg_jct_s"] == {"mean": 1.0, "ci95": None}


def test_the_same_seed_writes_the_same_bytes_but_for_the_simulators_own_time(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        path = tmp_path / name
        result = run(
            "simulate", "synthetic:jobs=40", "--cluster", "4x4", "--seed", "5", "--repeat", "2", "--json", str(path)
        )
        assert result.exit_code == 0, result.output
        texts.append(re.sub(r'"cpu_s": [0-9.e-]+', "", path.read_text()))
    assert texts[0] == texts[1]


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "out.png"
    result = run("simulate", "synthetic:jobs=30", "--cluster", "4x4", "--plot", str(path))
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("synthetic", "--cluster", "2x4"), "asks for 16 GPUs and the cluster has 8"),
        (("synthetic", "--policy", "best"), "There is no policy 'best'"),
        (("synthetic", "--policy", "packed", "--fill", "holes"), "choose none or easy"),
        (("nothing.csv",), "can't be read"),
        (("synthetic:class_a=7",), "class_a=7 must be 0 to 1."),
        (("synthetic:class_a=nan",), "class_a=nan must be 0 to 1."),
        (("synthetic:per_hour=nan",), "per_hour=nan must be 0.001 to 1,000,000,000."),
        (("synthetic:per_hour=1e-300",), "per_hour=1e-300 must be 0.001 to"),
        (("synthetic:jobs=1000000000",), "jobs=1e+09 must be 1 to 1,000,000."),
        (("synthetic:jobs=1e9",), "jobs must be a number, not '1e9'"),
        (("synthetic:shortest_min=-5",), "shortest_min=-5 must be 0.0001 to"),
        (("synthetic:longest_min=inf",), "longest_min=inf must be 0.0001 to"),
        (("synthetic:longest_min=1",), "shortest_min=31.6 must be at most longest_min=1."),
        (("synthetic:arrivals=" + "x" * 999,), f"arrivals='{'x' * 40}' must be one of poisson, diurnal."),
        (("synthetic:jobs=50", "--tracked", "60-70"), "The trace has 50 jobs; none of 60 to 70"),
        (("synthetic", "--known", "x.csv"), "--known says what is believed"),
        (("nothing.csv", "--format", "slurm"), "There is no trace format 'slurm'"),
        (("synthetic:jobs=5", "--format", "bogus"), "no trace format 'bogus'; choose one of auto, jobs, "),
        (("synthetic:jobs=5", "--format", "sacct"), "is drawn and no file of format sacct; leave --format out"),
        (("nothing.csv", "--json", "/no/such/x.json"), "there is no directory /no/such"),
        (("nothing.csv", "--plot", "/no/such/x.png"), "there is no directory /no/such"),
    ],
)
def test_what_can_not_be_simulated_is_said_in_a_sentence(words: tuple[str, ...], said: str) -> None:
    result = run("simulate", *words)
    assert result.exit_code != 0
    assert said in str(result.exception)


def month(tmp_path: Path, slow: float) -> tuple[Path, Path]:
    """Two hundred one-GPU jobs on 4x4, and scores in which node n4 is `slow`."""
    rows = ["JobID|Submit|Start|End|AllocTRES|NodeList|User|Comment|Timelimit"]
    for i in range(200):
        at = 1_790_000_000 + 600 * i
        rows.append(f"{i}|{at}|{at + 5}|{at + 5 + 6000}|cpu=1,gres/gpu=1|n{i % 4 + 1}|u{i % 3}|app:resnet50|02:00:00")
    sacct, scores = tmp_path / "sacct.txt", tmp_path / "scores.csv"
    sacct.write_text("\n".join(rows) + "\n")
    lines = ["node,slot,class,score"]
    lines += [f"n{n},{s},A,{slow if n == 4 else 1.0}" for n in range(1, 5) for s in range(4)]
    scores.write_text("\n".join(lines) + "\n")
    return sacct, scores


@pytest.mark.parametrize(("slow", "name"), [(1.5, "gain.txt"), (1.01, "no-gain.txt")])
def test_the_page_of_a_month_with_and_without_a_slow_node(tmp_path: Path, slow: float, name: str) -> None:
    sacct, scores = month(tmp_path, slow)
    result = run("gain", "--sacct", str(sacct), "--scores", str(scores), "--gpus-per-node", "4")
    assert result.exit_code == 0, result.output
    compare(name, result.output)


def test_rows_of_the_tables_can_be_chosen(tmp_path: Path) -> None:
    words = ("simulate", "synthetic:jobs=20,per_hour=9", "--cluster", "4x4", "--no-moves")
    whole = [line.split("  ")[0] for line in run(*words).output.splitlines()[1:]]
    assert whole.index("order, fill") < whole.index("makespan, h") < whole.index("average JCT / first")
    some = run(*words, "-o", "makespan_s,avg_jct_s/first,parts").output.splitlines()[1:]
    assert [line.split("  ")[0] for line in some] == ["", "makespan, h", "average JCT / first", "order, fill"]
    sizes = [title for title in whole if re.fullmatch(r"[-0-9>]+ GPUs? \([0-9]+ jobs\): JCT, 99 %, h", title)]
    assert sizes and sizes == whole[-len(sizes) :] and sizes[0].startswith("1 GPU (")
    names = run("simulate", "x", "-o", "help").output.split()
    assert len(names) == len(whole) - len(sizes) + 1  # `sizes` is all of those, and `shared` only where jobs may
    assert [line.split("  ")[0] for line in run(*words, "-o", "sizes").output.splitlines()[1:]] == ["", *sizes]
    sacct, scores = month(tmp_path, 1.5)
    month_words = ("gain", "--sacct", str(sacct), "--scores", str(scores), "--gpus-per-node", "4", "--repeat", "2")
    most, saved = run(*month_words, "-o", "most,saved_jct").output.splitlines()
    assert most.startswith("The most that any placement") and saved.startswith("Time from submission to end")
    assert "moving.saved_jct" in run(*month_words, "-o", "help").output
    assert "leave out -o or --json" in run(*month_words, "-o", "most", "--json").output


def test_a_month_with_moves_saves_more_where_fast_gpus_come_free_while_slow_ones_work(tmp_path: Path) -> None:
    """Sixteen jobs of two lengths come at a time, and twelve of sixteen GPUs are slow."""
    rows = ["JobID|Submit|Start|End|AllocTRES|NodeList|User|Comment|Timelimit"]
    for i in range(160):
        at = 1_790_000_000 + 40_000 * (i // 16)
        ran = 3000 if i % 16 < 4 else 20_000
        said = "" if i % 16 == 15 else " pal:move"
        rows.append(f"{i}|{at}|{at}|{at + ran}|cpu=1,gres/gpu=1|n{i % 16 // 4 + 1}|u|app:resnet50{said}|08:00:00")
    sacct, scores = tmp_path / "sacct.txt", tmp_path / "scores.csv"
    sacct.write_text("\n".join(rows) + "\n")
    lines = [f"n{n},{slot},A,{1.0 if n == 1 else 1.4}" for n in range(1, 5) for slot in range(4)]
    scores.write_text("node,slot,class,score\n" + "\n".join(lines) + "\n")
    words = ("gain", "--sacct", str(sacct), "--scores", str(scores), "--gpus-per-node", "4", "--repeat", "3")
    told = [run(*words, "--json", *more).stdout for more in ((), ("--moves",), ("--moves", "--move-cost", "1e5"))]
    for text in told:
        judge(["gain", "--json"], text)
    ((still,), (cheap,), (dear,)) = (json.loads(text)["saved"] for text in told)
    assert still["moving"] is None and cheap["moving"]["movable"] == 150
    assert all(cheap[name] == still[name] for name in ("saved_jct", "saved_gpu_hours", "packed_gpu_hours"))
    assert cheap["moving"]["moves_per_job"] > 0 and dear["moving"]["moves_per_job"] == 0
    assert cheap["moving"]["beyond_pal"]["mean"] > 0.02
    assert cheap["moving"]["saved_jct"]["mean"] > dear["moving"]["saved_jct"]["mean"] + 0.02
    page = run(*words, "--moves").output
    assert "- moves a job, at 60 s each" in page and "With moves pald may move 150 jobs" in page
    sacct.write_text(sacct.read_text().replace("pal:move", "pal:stay"))
    page = run(*words, "--moves").output
    assert "With moves:" not in page and "No job said that it may be moved" in page


def test_a_month_on_the_best_gpus_leaves_nothing_to_save_and_never_less(tmp_path: Path) -> None:
    sacct, _ = month(tmp_path, 1.0)
    scores = tmp_path / "fast.csv"
    rows = [f"n{n},{slot},A,{0.99 if n < 4 else 1.0}" for n in range(1, 5) for slot in range(4)]
    scores.write_text("node,slot,class,score\n" + "\n".join(rows) + "\n")
    sacct.write_text(re.sub(r"\|n[1-4]\|", "|n1|", sacct.read_text().replace("|n4|", "|n1|", 1)))
    words = ("gain", "--sacct", str(sacct), "--scores", str(scores), "--gpus-per-node", "4")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "The most that any placement could save              0.0 %\n" in result.output
    assert [one["most"] for one in json.loads(run(*words, "--json").stdout)["saved"]] == [0.0]


def test_accounting_without_gpu_jobs_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|Submit|Start|End|AllocTRES|NodeList|User\n1|1|2|3|cpu=1|n1|u\n")
    result = run("gain", "--sacct", str(path))
    assert isinstance(result.exception, BadInput)
    assert "no GPU job has ended there; 1 rows were left out" in str(result.exception)


def test_accounting_is_asked_where_pal_yaml_says_that_slurm_is(tmp_path: Path) -> None:
    sacct, scores = month(tmp_path, 1.3)
    program = tmp_path / "bin" / "sacct"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >{tmp_path}/asked\ncat {sacct}\n')
    program.chmod(0o755)
    (tmp_path / "pal.yaml").write_text(f"cluster: {{bin_dir: {program.parent}}}\nstate_dir: {tmp_path}\n")
    words = ("--config", str(tmp_path / "pal.yaml"), "gain", "--scores", str(scores), "--gpus-per-node", "4")
    result = run(*words, "--since", "2026-01-02")
    assert result.exit_code == 0, result.output
    assert result.output == run(*words, "--sacct", str(sacct)).output
    assert "-S 2026-01-02T00:00:00 " in (tmp_path / "asked").read_text()


def test_run_times_are_compared_with_those_of_the_same_gpu_model(tmp_path: Path) -> None:
    sacct, _ = month(tmp_path, 1.0)
    rows = [f"n{n},{slot},{model},A,{s}" for n, model, s in ((1, "a100", 0.2), (2, "v100", 0.4)) for slot in range(4)]
    scores = tmp_path / "times.csv"
    scores.write_text("node,slot,model,class,seconds\n" + "\n".join(rows) + "\n")
    result = run("gain", "--sacct", str(sacct), "--scores", str(scores), "--gpus-per-node", "4")
    assert result.exit_code == 0, result.output
    assert "A               8  1.000  1.000    1.000" in result.output


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ((), "packed pal"),
        (("--placement", "lv"), "packed with lv|pal with lv"),
        (("--placement", "packed"), "packed|pal with packed"),
        (("--moving", "value"), "packed with value|pal"),
        (("--placement", "lv", "--moving", "value"), "packed with lv, value|pal with lv"),
        (("--order", "slurm"), "packed pal"),
    ],
)
def test_a_policy_whose_placement_or_moving_an_option_replaces_is_named_by_it(
    options: tuple[str, ...], columns: str
) -> None:
    words = ("simulate", "synthetic:jobs=5", "--cluster", "2x4", "--policy", "packed", "--policy", "pal", *options)
    heads = run(*words, "-o", "makespan_s").stdout.splitlines()[1].strip()
    assert re.split(r"\s{2,}", heads) == (columns.split("|") if "|" in columns else columns.split())
