"""pal.yaml is read strictly: every mistake is named, all at once, by line and key, with a remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import Config, check, database_url, load, without_password
from pal_slurm.errors import ConfigError

LINKS = "apps:\n  bert:\n    class: A\n    "
TWO = "cluster:\n  models: [v100, a100]\napps:\n  bert:\n    class: A\n    "
# one typo per row: what stands in the file, the line, the key, words of the message
PAIR = "sharing:\n  pairs:\n  - {app: bert, beside: net, "
TYPOS = [
    ("clutser:\n  backend: cli\n", 1, "clutser", "did you mean `cluster`"),
    ("cluster:\n  backend: pyslrm\n", 2, "cluster.backend", "did you mean `pyslurm`"),
    ('cluster:\n  worker_python: "/usr/bin/\\ud800"\n', 2, "cluster.worker_python", "can't be printed"),
    ("cluster:\n  timeout_s: !!bool maybe\n", 2, "cluster.timeout_s", "can't be read as a number"),
    ("database:\n  keep_runs_days: .inf\n", 2, "database.keep_runs_days", "must be at most 36500"),
    ("cluster:\n  timeout: 5\n", 2, "cluster.timeout", "did you mean `timeout_s`"),
    ("cluster:\n  timeout_s: 10s\n", 2, "cluster.timeout_s", "without a unit: 10"),
    ("cluster:\n  worker_command: chroot /x\n", 2, "cluster.worker_command", "must be a list"),
    ("actuator: pins\n", 1, "actuator", "did you mean `pin`"),
    ("moves:\n  mode: on\n", 2, "moves.mode", "none of off, asked, proven"),
    ("moves:\n  mode: ask\n", 2, "moves.mode", "did you mean `asked`"),
    ("moves:\n  qos: low\n", 2, "moves.qos", "for example [low]"),
    ("lease:\n  lenght_s: 20\n", 2, "lease.lenght_s", "did you mean `length_s`"),
    ("lease:\n  max_s: 3600\n", 2, "lease.max_s", "must be at most 600"),
    ("lease:\n  margin_s: .nan\n", 2, "lease.margin_s", "out of range"),
    ("lease:\n  margin_s: 2\n  margin_s: 3\n", 3, "lease.margin_s", "given twice (first in line 2)"),
    ("lease:\n  length_s:\n", 2, "lease.length_s", "has no value"),
    ("cycle: 5\n", 1, "cycle", "must be a map"),
    ("canary:\n  partitions: gpu\n", 2, "canary.partitions", "for example [gpu]"),
    ("canary:\n  partitions: [gpu, no]\n", 2, "canary.partitions[1]", "put it in quotes"),
    ("canary:\n  percent: 5%\n", 2, "canary.percent", "without a unit: 5"),
    ("budget:\n  edits_per_s: .inf\n", 2, "budget.edits_per_s", "must be at most 1000"),
    ("budget:\n  interval_s: 3\n", 2, "budget.interval_s", "it is `cycle.interval_s`"),
    ("edits_per_s: 3\n", 1, "edits_per_s", "it is `budget.edits_per_s`"),
    ("policy:\n  name: pall\n", 2, "policy.name", "did you mean `pal`"),
    ("policy:\n  placement: lvv\n", 2, "policy.placement", "choose one of"),
    ("policy:\n  backfill: maybe\n", 2, "policy.backfill", "must be true or false or null"),
    ("policy:\n  order: las\n", 2, "policy.order", "choose one of fifo, slurm"),
    ("policy:\n  order: srtf\n", 2, "policy.order", "choose one of fifo, slurm"),
    ("policy:\n  moving: valu\n", 2, "policy.moving", "did you mean `value`?"),
    ("actuator: move\npolicy:\n  moving: assign\n", 3, "policy.moving", "'assign' is none of"),
    ("policy:\n  moving: value\n", 2, "policy.moving", "actuator shadow moves no running job; say `actuator: move`"),
    ("actuator: exclude\npolicy:\n  moving: value\n", 3, "policy.moving", "actuator exclude moves no running job"),
    ("state_dir: var/lib\n", 1, "state_dir", "absolute path"),
    ("classes:\n  names: [A, b]\n", 2, "classes.names[1]", "must match"),
    ("classes:\n  names: [A, A]\n", 2, "classes.names[1]", "A is named twice; keep one"),
    ("classes:\n  names: [A, B, A, A]\n", 2, "classes.names[2]", "A is named 3 times; keep one"),
    ("classes:\n  default: D\n", 2, "classes.default", "none of the classes A, B, C"),
    ("patterns: [{}]\n", 1, "patterns[0]", "needs `app`"),
    ("apps:\n  re$net:\n    class: A\n", 2, "apps", "is no name"),
    ("apps:\n  bert:\n    class: E\n", 3, "apps.bert.class", "none of the classes"),
    ("apps:\n  bert:\n    base: {v100: 0.2}\n", 3, "apps.bert", "has no class"),
    ("apps:\n  bert:\n    class: A\n    base: {v100: -3}\n", 4, "apps.bert.base.v100", "must be more than 0"),
    ("apps:\n  bert:\n    class: A\n    comm: {rak: 1}\n", 4, "apps.bert.comm.rak", "did you mean `rack`"),
    ("apps:\n  bert:\n    class: A\n    comm: {unlinked: 1.2}\n", 4, "apps.bert.comm.unlinked", "more than rack (1)"),
    (LINKS + "comm: {unlinked: .nan, rack: 2, cluster: 2}\n", 4, "apps.bert.comm.unlinked", "out of range"),
    (LINKS + "comm: {unlinked: 0.9}\n", 4, "apps.bert.comm.unlinked", "must be at least 1"),
    (LINKS + "comm: {unlinked: 1.2, rack: 2, cluster: 2}\n", 4, "apps.bert.comm.unlinked", "cluster.gres_conf"),
    ("cluster:\n  gres_conf: gres.conf\n", 2, "cluster.gres_conf", "must be an absolute path"),
    ("apps:\n  bert:\n    class: A\n    comm: {node: 2}\n", 4, "apps.bert.comm", "distance can't make it faster"),
    ("apps:\n  bert:\n    class: A\n    base: {v100: 0}\n", 4, "apps.bert.base.v100", "must be more than 0"),
    ("apps:\n  bert:\n    class: A\n    base: {v100: .nan}\n", 4, "apps.bert.base.v100", "out of range"),
    (
        "apps:\n  bert:\n    class: A\n    base: {v100: 1000000001.0}\n",
        4,
        "apps.bert.base.v100",
        "must be at most 1e+06",
    ),
    (
        TWO + "base: {v10: 1, a100: 2}\n",
        6,
        "apps.bert.base.v10",
        "none of cluster.models (v100, a100); did you mean `v100`",
    ),
    (TWO + "base: {v100: 1}\n", 6, "apps.bert.base", "tells of v100 only: tell of a100 too"),
    ("pools:\n  dearer: maybe\n", 2, "pools.dearer", "none of never, ask, ok"),
    ("pools:\n  billing: {h100: -1}\n", 2, "pools.billing.h100", "must be at least 0"),
    ("pools:\n  wait_s: .nan\n", 2, "pools.wait_s", "out of range"),
    (PAIR + "factor: 0, back: 1}\n", 3, "sharing.pairs[0].factor", "must be at least 1"),
    (PAIR + "factor: -2, back: 1}\n", 3, "sharing.pairs[0].factor", "must be at least 1"),
    (PAIR + "factor: .nan, back: 1}\n", 3, "sharing.pairs[0].factor", "out of range"),
    (PAIR + "factor: .inf, back: 1}\n", 3, "sharing.pairs[0].factor", "must be at most 100"),
    (PAIR + "factor: 1000000000, back: 1}\n", 3, "sharing.pairs[0].factor", "must be at most 100"),
    (PAIR + "factor: 1, back: 1e9}\n", 3, "sharing.pairs[0].back", "must be a number"),
    (PAIR + "factor: 1.2}\n", 3, "sharing.pairs[0]", "add back, or fits: false"),
    (PAIR + "back: 1.2}\n", 3, "sharing.pairs[0]", "add factor, or fits: false"),
    (PAIR[:-2] + "}\n", 3, "sharing.pairs[0]", "add factor and back, or fits: false"),
    (PAIR + "back: 1.2, fits: false}\n", 3, "sharing.pairs[0]", "a factor, and fits: false; keep one"),
    (PAIR + "factor: 1.2, back: 1, measure: true}\n", 3, "sharing.pairs[0]", "a factor, and measure: true; keep one"),
    (PAIR + "fits: false, measure: true}\n", 3, "sharing.pairs[0]", "fits: false, and measure: true; keep one"),
    (PAIR + "measure: often}\n", 3, "sharing.pairs[0].measure", "must be"),
    (PAIR + "factor: 1, back: 1}\n  - {app: net, beside: bert, fits: false}\n", 4, "sharing.pairs[1]", "already"),
    (PAIR.replace("net", "bert") + "factor: 1, back: 2}\n", 3, "sharing.pairs[0]", "are the same thing"),
    (PAIR + "factor: 1, back: 1, model: v10}\ncluster: {models: [v100]}\n", 3, "sharing.pairs[0].v10", "mean `v100`"),
    ("sharing:\n  pairs:\n  - {app: bert, factor: 1, back: 1}\n", 3, "sharing.pairs[0]", "needs `beside`"),
    ("sharing:\n  pairs_file: pairs.json\n", 2, "sharing.pairs_file", "absolute path"),
    ("sharing:\n  pairs_file: /nowhere/pairs.json\n", 2, "sharing.pairs_file", "is not Gavel's throughput table"),
    ("policy:\n  pools: price\n", 2, "policy.pools", "did you mean `prices`"),
    ("metrics:\n  listen: 9752\n", 2, "metrics.listen", "put it in quotes"),
    ("metrics:\n  listen: localhost\n", 2, "metrics.listen", "ADDRESS:PORT"),
    ("metrics:\n  listen: '127.0.0.1:²'\n", 2, "metrics.listen", "ADDRESS:PORT"),
    ("metrics:\n  listen: unix:metrics.sock\n", 2, "metrics.listen", "absolute path"),
    (f"metrics:\n  listen: unix:/{'x' * 107}\n", 2, "metrics.listen", "107 bytes"),
    ("page:\n  listen: localhost\n", 2, "page.listen", "ADDRESS:PORT"),
    ("page:\n  listen: ''\n", 2, "page.listen", "must not be empty"),
    ("page:\n  privacy: public\n", 2, "page.privacy", "none of users, open"),
    ("page:\n  user_header: X-Remote-User\n", 2, "page.user_header", "name the proxy's address"),
    ("page:\n  proxy: 127.0.0.1\n", 2, "page.proxy", "every user of this host can come from 127.0.0.1"),
    ("page:\n  proxy: ::1\n", 2, "page.proxy", "let the proxy come through a socket"),
    ("page:\n  proxy: 10.0.0.0/8\n", 2, "page.proxy", "is no IP address"),
    ("page:\n  listen: unix:/s\n  user_header: Host\n", 3, "page.user_header", "a header of its own meaning"),
    ("page:\n  user_header: X_Remote_User\n", 2, "page.user_header", "must match"),
    (f"users:\n  socket: /{'x' * 107}\n", 2, "users.socket", "107 bytes"),
    ("users:\n  socket: users.sock\n", 2, "users.socket", "absolute path"),
    ("database:\n  url: postgresql://pal:secret@db/pal\n", 2, "database.url", "holds a password"),
    ("lease:\n\tmax_s: 20\n", 2, "", "indents with spaces"),
    ("a: &x 1\nb: *x\n", 2, "", "alias"),
    ("- 1\n", 1, "", "must be a map"),
    ("state_dir: !!python/object/apply:os.system [id]\n", 1, "state_dir", "must be text"),
]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pal.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "line", "key", "words"), TYPOS, ids=[row[2] + ":" + row[3][:20] for row in TYPOS])
def test_a_typo_is_named_by_line_key_and_remedy(tmp_path: Path, text: str, line: int, key: str, words: str) -> None:
    [fault] = check(write(tmp_path, text))
    assert (fault.line, fault.key) == (line, key)
    assert words in fault.message
    assert str(fault).startswith(f"{tmp_path}/pal.yaml:{line}: {key}")


# Each row: one line of the file, the key that the message names, and the remedy that it gives.
TWENTY = [
    ("clutser: {}", "clutser", "did you mean `cluster`?"),
    ("lease:", "", ""),
    ("  lenght_s: 20", "lease.lenght_s", "did you mean `length_s`?"),
    ("  max_s: 3600", "lease.max_s", "must be at most 600"),
    ("  margin_s: 3s", "lease.margin_s", "without a unit: 3"),
    ("actuator: pins", "actuator", "did you mean `pin`?"),
    ("edits_per_s: 3", "edits_per_s", "it is `budget.edits_per_s`"),
    ("cluster:", "", ""),
    ("  backend: pyslrm", "cluster.backend", "did you mean `pyslurm`?"),
    ("  timeout: 5", "cluster.timeout", "did you mean `timeout_s`?"),
    ("  worker_command: chroot", "cluster.worker_command", "for example [chroot]"),
    ("  worker_python: ''", "cluster.worker_python", "must not be empty"),
    ("cycle: 5", "cycle", "one `key: value` per line"),
    ("canary:", "", ""),
    ("  partitions: gpu", "canary.partitions", "for example [gpu]"),
    ("  percent: 10%", "canary.percent", "without a unit: 10"),
    ("  precent: 10", "canary.precent", "did you mean `percent`?"),
    ("policy:", "", ""),
    ("  backfill: maybe", "policy.backfill", "must be true or false or null"),
    ("  placment: lv", "policy.placment", "did you mean `placement`?"),
    ("classes:", "", ""),
    ("  names: [A, b]", "classes.names[1]", "must match"),
    ("metrics:", "", ""),
    ("  listen: 9752", "metrics.listen", "put it in quotes"),
    ("  listen: ''", "metrics.listen", "keep one"),
    ("scores:", "", ""),
    ("  stale-after-days: 3", "scores.stale-after-days", "did you mean `stale_after_days`?"),
]


def test_twenty_typos_give_twenty_messages_that_name_line_key_and_remedy(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(f"{row[0]}\n" for row in TWENTY))
    told = CliRunner().invoke(palctl, ["config", "check", str(path)])
    assert told.exit_code == 78
    expected = [(number, key, remedy) for number, (_, key, remedy) in enumerate(TWENTY, 1) if key]
    lines = told.output.splitlines()
    assert len(lines) == len(expected) == 20
    for line, (number, key, remedy) in zip(lines, expected, strict=True):
        assert line.startswith(f"{path}:{number}: {key}: ")
        assert remedy in line


def test_a_class_that_is_named_twice_is_listed_once_in_what_else_is_said(tmp_path: Path) -> None:
    text = "classes:\n  names: [A, A]\n  default: D\napps:\n  bert: {class: Q}\nprofile:\n  kernels: {gemm: Z}\n"
    faults = check(write(tmp_path, text))
    assert [fault.key for fault in faults] == [
        "classes.names[1]", "classes.default", "apps.bert.class", "profile.kernels"
    ]  # fmt: skip
    assert not [str(fault) for fault in faults if "A, A" in str(fault)]


def test_a_mistake_of_form_hides_no_other_and_what_rests_on_it_is_not_judged(tmp_path: Path) -> None:
    text = (
        "policy:\n  name: pall\n  backfill: maybe\n"  # 2, 3
        "state_dir: var\n"  # 4
        "lease:\n  max_s: 5s\n  length_s: 21\n"  # 6; 21 is neither more nor less than what max_s was to be
        "apps:\n  bert: {klass: A}\n  gpt: {class: Q}\n"  # 9, 10
    )
    keys = [(fault.line, fault.key) for fault in check(write(tmp_path, text))]
    assert keys == [
        (2, "policy.name"), (3, "policy.backfill"), (4, "state_dir"), (6, "lease.max_s"),
        (9, "apps.bert.klass"), (10, "apps.gpt.class"),
    ]  # fmt: skip


def test_load_refuses_with_all_faults_in_one_error(tmp_path: Path) -> None:
    path = write(tmp_path, "a: 1\nb: 2\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert len(str(caught.value).splitlines()) == 2
    assert caught.value.exit_code == 78


def test_an_empty_file_and_empty_sections_mean_defaults(tmp_path: Path) -> None:
    assert load(write(tmp_path, "")) == Config()
    assert load(write(tmp_path, "lease:\napps:\ncycle: {}\n")) == Config()


def test_times_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    text = "lease:\n  length_s: 10\n  margin_s: 6\ncycle:\n  interval_s: 20\nleader:\n  ttl_s: 30\n"
    keys = [fault.key for fault in check(write(tmp_path, text))]
    assert keys == ["lease.margin_s", "cycle.interval_s", "cycle.interval_s", "leader.ttl_s"]


def test_apps_become_model_apps(tmp_path: Path) -> None:
    text = "apps:\n  bert:\n    class: B\n    base: {v100: 0.2}\n    comm: {node: 1.0, rack: 1.1, cluster: 1.3}\n"
    app = load(write(tmp_path, text)).known_apps().get("bert")
    assert (app.cls, app.base["v100"], app.comm) == ("B", 0.2, (1.0, 1.0, 1.1, 1.3))


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    [fault] = check(tmp_path / "none.yaml")
    assert "palctl config sample" in str(fault)


def test_a_file_without_end_is_refused() -> None:
    [fault] = check(Path("/dev/zero"))
    assert "larger than 4000000 bytes" in str(fault)


def test_a_file_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.chmod(0o666)
    assert "can be written by everybody" in str(check(path)[0])


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pal.yaml"
    path.write_bytes(b"state_dir: /\xff\n")
    assert "UTF-8" in str(check(path)[0])
    path.write_bytes(b"state_dir: /\x00\n")
    assert "not YAML" in str(check(path)[0])


def test_the_database_url_comes_from_environment_file_or_default_in_this_order(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://pal:s3cret@db/pal\n")
    secret.chmod(0o600)
    config = load(write(tmp_path, f"database:\n  url_file: {secret}\n"))
    assert database_url(config, {"PAL_DATABASE_URL": "sqlite:////x"}) == "sqlite:////x"
    assert database_url(config, {}) == "postgresql://pal:s3cret@db/pal"
    assert database_url(Config(), {}) == "sqlite:////var/lib/pal-slurm/pal.sqlite"


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("sqlite:////x\n")
    secret.chmod(0o644)
    config = load(write(tmp_path, f"database:\n  url_file: {secret}\n"))
    with pytest.raises(ConfigError, match="chmod 600"):
        database_url(config, {})
    secret.chmod(0o600)
    os.truncate(secret, 0)
    with pytest.raises(ConfigError, match="is empty"):
        database_url(config, {})


@pytest.mark.parametrize("url", ["postgresql://pal:s3c:r@et@db/pal", "mysql+pymysql://pal:s3c:r@et@db:3306/pal?x=1"])
def test_a_password_is_never_shown(url: str) -> None:
    assert "s3c" not in without_password(url)
    assert "et@" not in without_password(url)
    assert "pal:***@db" in without_password(url)


def test_a_word_that_yaml_takes_for_false_is_the_word(tmp_path: Path) -> None:
    assert load(write(tmp_path, "moves:\n  mode: off\n")).moves.mode == "off"
    assert load(write(tmp_path, "moves: {mode: 'off'}\n")).moves.mode == "off"
