"""What a man page says beside the program's own help: files, environment, exit codes. In: nothing. Out: PAGES."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.errors import BadInput, ConfigError, NotLeader, SlurmUnavailable, StoreError

Pairs = tuple[tuple[str, str], ...]

CONFIG = ("/etc/pal-slurm/pal.yaml", "The settings, see pal.yaml(5).")
STATE = ("/var/lib/pal-slurm", "The database and pald's lock, unless pal.yaml names other places.")
ENVIRONMENT: Pairs = (
    ("PAL_CONFIG", "The pal.yaml to use where --config is not given."),
    ("PAL_DATABASE_URL", "The database; wins over what pal.yaml says of it."),
)
EXITS: Pairs = (
    ("0", "Done."),
    ("2", "A word of the command line is wrong."),
    (str(BadInput.exit_code), "A file or a text that was given is wrong; nothing was changed."),
    (str(StoreError.exit_code), "The database can't be used, or what was asked for can't be written."),
    (
        str(SlurmUnavailable.exit_code),
        "slurmctld gives no answer, or another pald is at work: try again.",
    ),
    (str(ConfigError.exit_code), "pal.yaml is wrong."),
)
assert NotLeader.exit_code == SlurmUnavailable.exit_code


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    section: int
    purpose: str  # after the dash in NAME
    see: tuple[str, ...]
    files: Pairs = ()
    environment: Pairs = ()
    exits: Pairs = ()
    signals: Pairs = ()

    @property
    def file(self) -> str:
        return f"{self.name}.{self.section}"


PAGES = {
    page.name: page
    for page in (
        Page(
            "palctl", 1, "see and steer pal-slurm", ("pald(8)", "pal.yaml(5)", "pal-probe(1)"),
            files=(
                CONFIG, STATE,
                ("/run/pal-slurm/users.sock", "Where who may not read the settings asks pald: why, jobs, apps."),
            ),
            environment=(*ENVIRONMENT,
                ("PAL_SOCKET", "Ask pald there, of your own jobs, whoever you are."),
                ("PAL_PAGE", "Ask pal-page there, as https://gpus.example, with the token in SLURM_JWT."),
                ("SLURM_JWT", "Says to pal-page who you are: export $(scontrol token)."),
                ("NO_COLOR", "No colours, unless --color asks for some."),
                ("PAGER", "What shows long tables on a terminal; less, unless told."),
            ),
            exits=(
                EXITS[0], ("1", "slots check, topology or doctor found something wrong."), *EXITS[1:],
                ("141", "Who read the output has ended."),
            ),
        ),
        Page(
            "pald", 8, "places pending Slurm GPU jobs on the GPUs that suit them",
            ("palctl(1)", "pal.yaml(5)", "slurmctld(8)"),
            files=(CONFIG, STATE, ("/run/pal-slurm/alive", "The time of the last cycle; job_submit.lua reads it.")),
            environment=ENVIRONMENT, exits=EXITS,
            signals=(
                ("SIGHUP", "Read pal.yaml again; a wrong one is refused and the old one stays."),
                ("SIGTERM", "End cleanly."),
            ),
        ),
        Page(
            "pal-page", 8, "shows in a browser who holds which GPU, who waits and why", ("pald(8)", "pal.yaml(5)"),
            files=(
                CONFIG,
                ("/run/pal-slurm/now.json", "What pald sees, written anew every few seconds."),
                ("/run/pal-page", "For a socket that only a proxy may open; see page.listen in pal.yaml(5)."),
            ),
            environment=ENVIRONMENT, exits=tuple(pair for pair in EXITS if pair[0] in ("0", "2", "78")),
            signals=(("SIGTERM", "End cleanly."),),
        ),
        Page(
            "pal-probe", 1, "measures a compute node's GPUs for pal-slurm", ("palctl(1)", "pal-run(1)"),
            exits=(
                ("0", "Done."),
                ("2", "A word of the command line is wrong."),
                ("65", "A file or a text that was given is wrong."),
                ("69", "The devices can't be asked at all: no driver, no library, no description."),
            ),
        ),
        Page(
            "pal-run", 1, "runs a command that can save, so that its job can be moved", ("pal-probe(1)", "scontrol(1)"),
            environment=(
                ("PAL_RUN_PID", "Of the save command: the process that is to save."),
                ("SLURM_JOB_ID, SLURM_ARRAY_JOB_ID, SLURM_HET_JOB_ID", "Which job is requeued; without one, none is."),
                ("SLURM_PROCID, SLURM_STEP_NUM_TASKS", "Task 0 of a step has its job requeued, when all have saved."),
            ),
            exits=(
                ("of COMMAND", "As COMMAND ended; killed by a signal, it dies of the same."),
                ("2", "A word of the command line is wrong."),
                ("126, 127", "COMMAND can't be run, or there is none of that name."),
            ),
            signals=(
                ("SIGUSR1", "Or that of --signal: COMMAND is to save; then the job is requeued."),
                ("others", "Go to COMMAND. Where Slurm sends them to all processes of a step, it gets them twice."),
            ),
        ),
        Page("pal.yaml", 5, "settings of pal-slurm", ("palctl(1)", "pald(8)"), files=(CONFIG,)),
    )
}  # fmt: skip
