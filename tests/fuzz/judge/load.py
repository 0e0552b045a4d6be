"""P8: slurmctld is not flooded. P9: nothing that anybody wrote brings pald out of step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.fuzz.history import Asked
from tests.fuzz.judge.facts import Facts, Verdict

BURST = 64.0
READ_SHARE = 0.05
WINDOW_S = 60.0


def writes_keep_to_their_budget(facts: Facts) -> Iterator[Verdict]:
    rate = float(facts.history.setting["edits_per_s"])
    lives: dict[tuple[str, int], list[float]] = defaultdict(list)
    for update in facts.ours:
        lives[update.pald, update.life].append(update.at)
    for times in lives.values():
        # A bucket of BURST that fills with `rate`, and never overflows.
        tokens, last = max(BURST, 2 * rate), times[0]
        for at in times:
            tokens, last = min(max(BURST, 2 * rate), tokens + (at - last) * rate) - 1.0, at
            if tokens < -2.0 - rate:
                yield Verdict(
                    "P8",
                    "flood",
                    at,
                    None,
                    f"{len(times)} updates, more than {rate:g} a second and {BURST:.0f} at once",
                )
                break


def reading_keeps_to_its_share(facts: Facts) -> Iterator[Verdict]:
    lives: dict[tuple[str, int], list[Asked]] = defaultdict(list)
    for event in facts.events:
        if isinstance(event, Asked):
            lives[event.pald, event.life].append(event)
    for asked in lives.values():
        first = 0
        total = 0.0
        for number, event in enumerate(asked):
            total += event.took
            while asked[first].at < event.at - WINDOW_S:
                total -= asked[first].took
                first += 1
            worst = max(e.took for e in asked[first : number + 1])
            if total > READ_SHARE * WINDOW_S + 3 * worst:
                yield Verdict("P8", "reading", event.at, None, f"{total:.1f} s of slurmctld's time in a minute")
                return


def no_fault(facts: Facts) -> Iterator[Verdict]:
    for cycle in facts.cycles:
        if cycle.end == "fault":
            yield Verdict("P9", "fault", cycle.at, None, cycle.note)


def it_comes_to_rest(facts: Facts) -> Iterator[Verdict]:
    crowd = facts.history.setting["edits_per_s"] != "20"  # it is kept busy
    if facts.history.restless and not crowd:
        yield Verdict(
            "P8", "restless", facts.history.ended, None, f"{len(facts.cycles)} cycles, and {len(facts.ours)} updates"
        )


RULES = (it_comes_to_rest, writes_keep_to_their_budget, reading_keeps_to_its_share, no_fault)
