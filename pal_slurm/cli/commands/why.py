"""palctl why. In: a job id. Out: what was known, what was weighed, what became of it, in plain sentences."""

from __future__ import annotations

import re

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.present_now import present_now
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput


@click.command(name="why", short_help="Why a job got the GPUs that it got, or still waits.")
@click.argument("job", metavar="JOBID")
@click.option("--json", "as_json", is_flag=True, help="The records themselves.")
@pass_palctl
def command(palctl: Palctl, job: str, as_json: bool) -> None:
    """Why a job got the GPUs that it got, or still waits. JOBID is as squeue writes it: 17, an array's task 17_3."""
    from pal_slurm.daemon.pausing import paused
    from pal_slurm.report.life import life_of, life_sentences, pause_sentence
    from pal_slurm.report.present import FORECAST, forecast_sentences
    from pal_slurm.report.text import as_json as to_json
    from pal_slurm.store import Switches

    job = _own_id(job)
    if palctl.asks_pald:
        answer = palctl.ask("why", job=job)
        say(to_json(answer.records) if as_json else "\n".join(answer.lines))
        return
    match = re.fullmatch(r"([0-9]{1,10})(?:_([0-9]{1,10}))?", job)
    if match is None:
        raise BadInput(f"{job!r} is no job id; write 1234, or 1234_5 for a task of an array")
    life = life_of(palctl.store, palctl.cluster, int(match[1]), int(match[2]) if match[2] else None)
    pause = paused(palctl.config, Switches(palctl.store))
    told = [pause_sentence(pause)] if pause else []
    if life.empty:
        raise BadInput(" ".join([f"nothing is known of job {job}: pald has not seen it, or it was long ago.", *told]))
    seen = present_now(palctl)
    if as_json:
        click.echo(
            to_json({**life.plain(), **(dict.fromkeys(FORECAST) if seen is None else seen.forecast(int(match[1])))})
        )
        return
    expected = () if seen is None else forecast_sentences(seen, int(match[1]))
    for sentence in (*told, *life_sentences(life), *expected):
        click.echo(sentence)


def _own_id(text: str) -> str:
    """Of what squeue writes: `17_[3-9]` for those tasks of an array that wait, `17+1` for a part of a het job."""
    if part := re.fullmatch(r"([0-9]{1,9})\+([0-9]{1,3})", text):
        return str(int(part[1]) + int(part[2]))  # Slurm numbers the parts in a row
    return re.sub(r"_\[[^\]]*\]$", "", text)
