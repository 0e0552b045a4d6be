"""Jobs of our own: one per node, exclusive, at the end of the queue. In: a node and a command. Out: job ids, states.

sbatch, squeue and scancel only, which every release has. Nothing here goes through a shell; the command is the text of
a batch script that the site wrote into pal.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pal_slurm.errors import SlurmRefused, SlurmUnavailable
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.words import digits, printable

NAME = "pal-profile"
HANDS_OFF = "pal:off"  # the word in a comment that keeps pald from placing a job
_LAST = 1_000_000  # nice: behind everybody who asks for less


@dataclass(frozen=True, slots=True)
class Terms:
    """What all our jobs are submitted with."""

    output: str  # file for what the job says; Slurm's %N is the node
    partition: str = ""
    qos: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True)
class OurJob:
    id: int
    node: str
    running: bool


class Batch:
    def __init__(self, commands: Commands, name: str = NAME) -> None:
        self._commands, self._name = commands, name

    def submit(self, node: str, script: str, minutes: int, terms: Terms) -> int:
        """An exclusive job on exactly that node; SlurmRefused with Slurm's own words when it can't be."""
        options = [
            "--parsable", f"--job-name={self._name}", f"--nodelist={node}", "--nodes=1", "--exclusive", "--mem=0",
            f"--time={minutes}", f"--nice={_LAST}", "--no-requeue", f"--comment={HANDS_OFF}", "--input=/dev/null",
            f"--output={terms.output}", "--open-mode=truncate", "--chdir=/", "--export=PATH,HOME",
            *(f"--{key}={value}" for key in ("partition", "qos", "account") if (value := getattr(terms, key))),
        ]  # fmt: skip
        answer = self._commands.ask("sbatch", options, script.encode())
        if answer.code != 0:
            raise SlurmRefused(f"sbatch on {node}: {printable(answer.err) or f'exit status {answer.code}'}")
        number = answer.out.split(b";")[0].strip()
        if not digits(number):
            raise SlurmUnavailable(f"sbatch answered {printable(answer.out)!r} instead of a job id")
        return int(number)

    def ours(self) -> list[OurJob]:
        """Our jobs that wait or run, also those that an earlier run submitted."""
        columns = "%i|%t|%n|%N"  # no text that a user could write
        out = self._commands.read("squeue", ["-h", "--me", f"--name={self._name}", "-o", columns])
        found = []
        for line in out.decode("ascii", "replace").splitlines():
            number, state, wanted, got = (line.split("|") + [""] * 4)[:4]
            if digits(number):
                found.append(OurJob(int(number), got or wanted, state != "PD"))
        return found

    def cancel(self, ids: Sequence[int]) -> None:
        """Whatever of these still is; one that ended meanwhile is no error."""
        if ids:
            self._commands.ask("scancel", ["-f", *map(str, ids)])
