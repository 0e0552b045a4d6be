"""Now: who holds which GPU, what is just being done, what the week has gained."""

from __future__ import annotations

from pal_slurm.page.asked import NotThere, Visit
from pal_slurm.page.grid import BLOCKS, BY_JOB, DETAILED, blocks, chunks, rows
from pal_slurm.page.rows import edits_shown
from pal_slurm.page.views import PageView, Views
from pal_slurm.report.heat import LEGEND

EDITS = 12


def overview(asked: Visit) -> PageView:
    sight = asked.sight
    colours = (BY_JOB, *sight.scores.classes)
    colour = asked.choice("colour", colours)
    every = chunks(sight.nodes)
    page = asked.number()
    if page > max(1, -(-len(every) // BLOCKS)):
        raise NotThere(f"there is no page {page} of the map")
    detailed = sum(node.exists.bit_count() for node in sight.nodes) <= DETAILED
    pictures, _ = ([], 0) if detailed else blocks(sight, colour, (page - 1) * BLOCKS)
    return PageView(
        "overview.html",
        {
            "colour": colour,
            "colours": colours,
            "legend": list(enumerate(LEGEND)),
            "sheets": [(nodes[0].model, rows(nodes, sight, colour)) for nodes in every] if detailed else [],
            "blocks": pictures,
            "page": page,
            "pages": max(1, -(-len(every) // BLOCKS)) if not detailed else 1,
            "edits": edits_shown(asked, sight.ledger.edits[:EDITS]),
        },
    )


def block(asked: Visit) -> PageView:
    """One block of nodes, cell by cell."""
    sight = asked.sight
    colours = (BY_JOB, *sight.scores.classes)
    colour, number = asked.choice("colour", colours), asked.number("number", 0)
    every = chunks(sight.nodes)
    if number >= len(every):
        raise NotThere(f"there is no block {number} of nodes: there are {len(every)}, from 0")
    found = rows(every[number], sight, colour)
    values = {
        "number": number, "colour": colour, "colours": colours, "legend": list(enumerate(LEGEND)), "rows": found,
        "model": every[number][0].model, "blocks": len(every),
    }  # fmt: skip
    return PageView("block.html", values)


ROUTES: Views = {"/": overview, "/nodes/{number}": block}
