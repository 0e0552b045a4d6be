"""Trace readers: what each format means, and errors that name file, line and field."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pal_slurm.errors import BadInput
from pal_slurm.sim.traces import FORMATS, Options, read_trace
from pal_slurm.sim.traces.reading import MAX_LINE, Table
from pal_slurm.sim.traces.sacct import read_rows

JOBS = "job_id,submit_s,gpus,iterations,s_per_iteration,class\n"
SACCT = "JobID|Submit|Start|End|AllocTRES|NodeList|User|Comment|Timelimit\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace"
    path.write_text(text)
    return path


def test_the_plain_format_is_read(tmp_path: Path) -> None:
    load = read_trace(write(tmp_path, JOBS + "7,98.5,2,100,0.5,classB\n3,10,1,200,2.0,A\n"))
    first, second = load.works
    assert (first.id, first.submit, first.gpus, first.steps, first.app.cls) == (3, 10.0, 1, 200.0, "A")
    assert (second.id, second.app.cls, second.ideal_s()) == (7, "B", 50.0)
    assert second.app.comm == (1.0, 1.0, 1.7, 1.7)


def test_blox_pal_durations_are_iterations_of_the_model(tmp_path: Path) -> None:
    load = read_trace(write(tmp_path, "job_id,num_gpus,submit_time,duration,model\n0,4,98,1000.0,BERT\n"))
    (work,) = load.works
    assert (work.app.name, work.app.cls) == ("bert", "B")
    assert work.ideal_s() == pytest.approx(179.0)


def test_philly_times_begin_at_zero_and_jobs_without_gpus_are_counted(tmp_path: Path) -> None:
    text = (
        "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,x\n2017-10-09 07:00:55,5,0,0,x\n"
    )
    load = read_trace(write(tmp_path, text + "2017-10-09 07:02:55,30,8,240,x\n"))
    assert [work.submit for work in load.works] == [0.0, 60.0]
    assert load.skipped == 1


def test_gavel_sequences_take_the_v100_run_time(tmp_path: Path) -> None:
    head = "job_id\tarrival_s\tmodel\tscale_factor\ttotal_steps\tv100_duration_s\tpriority_weight\n"
    load = read_trace(write(tmp_path, head + "0\t12.5\tA3C\t2\t1000\t500\t1\n"))
    (work,) = load.works
    assert (work.gpus, work.steps, work.ideal_s()) == (2, 1000.0, 500.0)


def test_gavel_throughputs_give_a_speed_per_gpu_model(tmp_path: Path) -> None:
    table = tmp_path / "throughputs.json"
    table.write_text('{"v100": {"(\'A3C\', 1)": {"null": 4.0}}, "k80": {"(\'A3C\', 1)": {"null": 0.5}}}')
    head = "job_id\tarrival_s\tmodel\tscale_factor\ttotal_steps\tv100_duration_s\n"
    load = read_trace(write(tmp_path, head + "0\t0\tA3C\t1\t1000\t1\n"), options=Options(throughputs=table))
    assert load.works[0].app.base == {"v100": 0.25, "k80": 2.0}


def test_sacct_tells_what_ran_where(tmp_path: Path) -> None:
    rows = (
        "12|2026-10-01T00:00:00|2026-10-01T00:01:00|2026-10-01T01:01:00|billing=1,gres/gpu=4,node=2|n[1-2]|eve|app:bert|1-00:00:00\n"
        "12.batch|2026-10-01T00:00:00|2026-10-01T00:01:00|2026-10-01T01:01:00|gres/gpu=4|n1|||\n"
        "13_4|2026-10-01T00:00:30|2026-10-01T00:01:00|2026-10-01T00:02:00|cpu=4|n1|eve||\n"
        "14|2026-10-01T00:00:30|Unknown|Unknown||None assigned|eve||\n"
        "15|2026-10-01T00:00:30|2026-10-01T00:01:00|2026-10-01T00:02:00|gres/gpu:a100=2|n1|bob||UNLIMITED\n"
    )
    path = write(tmp_path, SACCT + rows)
    with Table(path) as table:
        first, second = read_rows(table)
        assert table.skipped == 3
    assert (first.gpus, first.app, first.limit_s, first.end - first.start) == (4, "bert", 86_400.0, 3600.0)
    assert (second.gpus, second.limit_s) == (2, None)
    load = read_trace(path)
    assert [work.submit for work in load.works] == [0.0, 30.0]
    assert load.works[0].app.cls == "B"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: the file is empty"),
        ("hello\n1\n", "no known trace begins with 'hello'"),
        ("job_id,submit_s,iterations,s_per_iteration\n1,2,3,4\n", "column gpus, class is missing"),
        (JOBS + "1,-5,1,10,1,A\n", "line 2, submit_s: -5 must be at least 0"),
        (JOBS + "1,5,1,10,1,A\n2,6,0,10,1,A\n", "line 3, gpus: 0 must be at least 1"),
        (JOBS + "1,5,1.5,10,1,A\n", "line 2, gpus: 1.5 is not a whole number"),
        (JOBS + "1,5,1,nan,1,A\n", "line 2, iterations: 'nan' is not a finite number"),
        (JOBS + "1,5,1,0,1,A\n", "line 2, iterations: 0 must be more than 0"),
        (JOBS + "1,soon,1,10,1,A\n", "line 2, submit_s: 'soon' is not a number"),
        (JOBS + "1,5,1\n2,5,1,10,1,A\n", "line 2, class: the line has only 3 fields"),
        (JOBS + "1,5,1,10,1,A\n1,6,1,10,1,A\n", "trace, line 3, job_id: 1 comes twice, first in line 2"),
        (JOBS, "holds no job"),
        (JOBS + "1,5,1,1e200,1,A\n", "line 2, iterations: 1e200 must be at most 1,000,000,000,000,000"),
        (JOBS + "1,5,1,1e14,1e14,A\n", "line 2, iterations x s_per_iteration: makes a run time of 1e+28 s"),
        (JOBS + "1,5,1,1e-9,1e-9,A\n", "line 2, iterations x s_per_iteration: makes a run time of 1e-18 s"),
        (JOBS + "9223372036854775808,5,1,10,1,A\n", "line 2, job_id: 9223372036854775808 must be at most"),
        (JOBS + "1,1e300,1,10,1,A\n", "line 2, submit_s: 1e300 must be at most 10,000,000,000"),
        (JOBS + f"1,5,{'9' * 300},10,1,A\n", f"line 2, gpus: {'9' * 40} must be at most"),
        ("timestamp,duration,num_gpus\n0,1e12,1\n", "line 2, duration: makes a run time of 1e+12 s"),
        ("timestamp,duration,num_gpus\n9999-01-01,5,1\n", "line 2, timestamp: '9999-01-01' lies too far"),
        ("job_id,num_gpus,submit_time,duration,model\n0,4,1e11,1000.0,bert\n", "line 2, submit_time: 1e11 must be"),
        ("job_id,num_gpus,submit_time,duration,model\n0,4,98,1e14,bert\n", "line 2, duration: makes a run time of"),
        ("timestamp,duration,num_gpus\nyesterday,5,1\n", "line 2, timestamp: 'yesterday' is not a time"),
        ("job_id,num_gpus,submit_time,duration,model\n0,4,98,1000.0,llama\n", "line 2, model: 'llama' is none of"),
        (SACCT + "1|2026-10-01T01:00:00|2026-10-01T00:00:00|2026-10-01T02:00:00|gres/gpu=1|n1|e||\n", "line 2, Start:"),
        ("JobID|Submit|Start|End|User|AllocTRES\n1|2|3|4\n", "line 2, AllocTRES: the line has only 4 fields"),
        (SACCT + "1|2026-10-01T00:00:00|2026-10-01T01:00:00|2026-10-01T00:30:00|gres/gpu=1|n1|e||\n", "line 2, End:"),
        ("JobID|Submit|Start|End|User\n", "column AllocTRES is missing"),
    ],
)
def test_a_bad_trace_is_refused_with_line_and_field(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(write(tmp_path, text))
    assert said in str(caught.value)


def test_a_torn_last_line_is_counted_and_left_out(tmp_path: Path) -> None:
    load = read_trace(write(tmp_path, JOBS + "1,5,1,10,1,A\n2,6,1,1"))
    assert len(load.works) == 1
    assert load.skipped == 1
    assert load.notes == ("line 3, the last, is torn and was left out",)


def test_a_whole_last_line_without_newline_is_kept(tmp_path: Path) -> None:
    assert len(read_trace(write(tmp_path, JOBS + "1,5,1,10,1,A")).works) == 1


def test_ten_gigabytes_of_nothing_are_refused_after_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, "x")
    os.truncate(path, 10_000_000_000)  # sparse
    with pytest.raises(BadInput, match=f"longer than {MAX_LINE:,} characters"):
        read_trace(path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"can't be read: No such file"):
        read_trace(tmp_path / "none.csv")


def test_a_job_larger_than_the_cluster_is_named(tmp_path: Path) -> None:
    load = read_trace(write(tmp_path, JOBS + "41,5,65,10,1,A\n"))
    with pytest.raises(BadInput, match=r"trace, line 2, gpus: job 41 asks for 65 GPUs and the cluster has 64"):
        load.fitting(64)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("job_id,num_gpus,submit_time,duration,model\n0,4,98,10,bert\n1,9,9,10,bert\n", "line 3, num_gpus: job 1"),
        ("timestamp,duration,num_gpus\n90,30,0\n95,30,9\n", "line 3, num_gpus: job 1"),
        (
            "job_id\tarrival_s\tmodel\tscale_factor\ttotal_steps\tv100_duration_s\n0\t12\tA3C\t9\t1000\t500\n",
            "line 2, scale_factor: job 0",
        ),
        (SACCT + "\n1|100|200|300|gres/gpu=9|n[1-3]|e||\n", "line 3, AllocTRES: job 1"),
    ],
)
def test_every_format_names_line_and_field_of_a_job_larger_than_the_cluster(
    tmp_path: Path, text: str, where: str
) -> None:
    load = read_trace(write(tmp_path, text))
    with pytest.raises(BadInput) as caught:
        load.fitting(8)
    assert f"trace, {where} asks for 9 GPUs and the cluster has 8; give a larger --cluster." in str(caught.value)


def test_every_format_has_a_reader() -> None:
    assert sorted(FORMATS) == ["gavel", "jobs", "pal", "philly", "sacct"]


ODD = "JobID|Submit|Start|End|AllocTRES|NodeList|User|Comment|JobName"


def accounted(number: int, comment: str = "", name: str = "train", start: int = 200, tres: str = "gres/gpu=1") -> str:
    return f"{number}|100|{start}|400|{tres}|n1|eve|{comment}|{name}\n"


@pytest.mark.parametrize("separator", ["\x1f", "|"])
def test_names_and_comments_of_any_characters_cost_no_row_of_accounting(tmp_path: Path, separator: str) -> None:
    """As sacct of 22.05, 24.11 and 26.05 writes them: raw, a line break too."""
    names = ["new\nline", "\n\n", "x" * 5000, "a\rb\vc\u2028d", "tab\t", "7", "\n7", f"own{separator}separator", ""]
    rows = [accounted(i, name=name) for i, name in enumerate(names, 1)]
    rows += [accounted(50 + i, comment=f"app:bert {name}") for i, name in enumerate(names) if separator not in name]
    rows += [accounted(98, comment="app:bert\n", name="\n"), accounted(99, "app:resnet50", "last")]
    text = f"{ODD}\n{''.join(rows)}".replace("|", separator).replace(f"own{separator}", "own" + separator)
    path = tmp_path / "month.txt"
    path.write_bytes(text.encode())
    with Table(path) as table:
        found = list(read_rows(table))
        assert table.notes == [] and table.skipped == 0
    assert [int(ran.name) for ran in found] == [*range(1, 10), *(50 + i for i in (*range(7), 8)), 98, 99]
    assert (found[0].title, found[-1].title, found[-1].app) == ("new\nline", "last", "resnet50")
    assert {(ran.user, ran.gpus, ran.submit) for ran in found} == {("eve", 1, 100.0)}
    assert len(read_trace(path).works) == len(found)


def test_odd_rows_of_accounting_are_left_out_with_their_lines(tmp_path: Path) -> None:
    odd = {
        3: (accounted(3, "app:x", "a|b|c").replace("|400|", "|400|a|b|c|d|"), "NodeList"),
        4: (accounted(4, start=50), "Start: 50 is before Submit 100"),
        5: (accounted(5).replace("|400|", "|soon|"), "End: 'soon'"),
        6: ("junk\n", ""),
        7: ("6|100|200\n", "the line has only 3 fields"),
        8: (accounted(8, tres="gres/gpu=" + "9" * 9), "999999999 GPUs"),
    }
    text = ODD.replace("|Comment|JobName", "") + "\n"
    rows = (accounted(1), *(row for row, _ in odd.values()), accounted(9))
    text += "".join("|".join(row.split("|")[:7]) + "\n" if row.count("|") == 8 else row for row in rows)
    with Table(write(tmp_path, text)) as table:
        found = [int(ran.name) for ran in read_rows(table)]
        assert found == [1, 9] and table.skipped == 6
        for line, said in odd.items():
            (note,) = [note for note in table.notes if f"line {line}, " in note]
            assert said[1] in note and len(note) < 700


def test_notes_of_odd_rows_do_not_grow_without_end(tmp_path: Path) -> None:
    with Table(write(tmp_path, f"{ODD}\n{accounted(1)}" + accounted(2, start=5) * 500)) as table:
        assert len(list(read_rows(table))) == 1
        assert (len(table.notes), table.notes[-1]) == (11, "490 more rows that can't be read were left out")
