"""palctl topology. In: a running Slurm, or a topology.conf; gres.conf. Out: racks, linked GPUs, what is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.say import say

FIELDS = ("name", "level", "nodes", "gpus")

if TYPE_CHECKING:
    from pal_slurm.report.text import Row
    from pal_slurm.slurm.nodes import NodeRecord
    from pal_slurm.slurm.topology import Topology


@click.command(name="topology", short_help="Racks and what is above them, as placements see them.")
@click.option("--file", "conf", type=click.Path(path_type=Path), help="Judge this topology.conf or topology.yaml too.")
@output_options
@pass_palctl
def command(palctl: Palctl, conf: Path | None, as_json: bool, fields: str) -> None:
    """Racks and what is above them, as placements see them, and what is missing; exit code 1 when something is.

    Where cluster.gres_conf of pal.yaml names a gres.conf with Links: also which GPUs of a node are linked directly.

    With --file: what Slurm would make of that file, before it has to start with it, and what of it the running Slurm
    does not tell.
    """
    from pal_slurm.cli.topology_view import linked_lines, linked_nodes, tree_lines, unlike
    from pal_slurm.intake.inputs import read_input
    from pal_slurm.slots.links import links_in, members
    from pal_slurm.slurm.commands.cluster import QUESTIONS, read_machine
    from pal_slurm.slurm.commands.run import Commands
    from pal_slurm.slurm.topology import faults, topology_of
    from pal_slurm.slurm.topology_file import dropped, read_topology_file

    columns = choose(fields, FIELDS, FIELDS)
    text = None if conf is None else read_input(str(conf)).decode("utf-8", "replace")
    written = None if conf is None or text is None else read_topology_file(conf, text)
    cluster = palctl.config.cluster
    linked = links_in(cluster.gres_conf)
    commands = Commands(Path(cluster.bin_dir) if cluster.bin_dir else None, cluster.timeout_s)
    machine = read_machine(commands.show(QUESTIONS))
    gpus = gpus_of(machine.nodes)
    topology = machine.topology if written is None else topology_of(written)
    found = faults(topology, [node for node, count in gpus.items() if count])
    found += unlike(linked, gpus)
    alike = linked_nodes(linked, gpus)
    found += missing(topology, machine.nodes, palctl, links_count=any(map(any, alike)))
    if written is not None:
        found += dropped(written, machine.topology.switches)
    if as_json:
        every = zip(_rows(topology, gpus), topology.switches, strict=True)
        whole = ({**row, "nodes": list(switch.nodes)} for row, switch in every)
        switches = [{field: row[field] for field in columns} for row in whole]
        links = [{"nodes": nodes, "groups": members(groups)} for groups, nodes in alike.items()]
        answer = {"levels": len(topology.levels), "switches": switches, "linked": links, "faults": found}
        click.echo(json.dumps(answer, indent=2))
    else:
        if fields:
            print_rows(_rows(topology, gpus), columns, as_json=False, empty="Slurm tells no switches, blocks or rings")
        else:
            say("\n".join([*tree_lines(topology, gpus), *linked_lines(alike)]))
        for fault in found:
            click.echo(f"{click.style('note', fg='yellow')} ", nl=False)
            say(fault)
    if found:
        sys.exit(1)


def _rows(topology: Topology, gpus: Mapping[str, int]) -> list[Row]:
    from pal_slurm.slurm.topology import named

    return [
        {"name": s.name, "level": s.level, "nodes": named(s.nodes), "gpus": sum(gpus.get(node, 0) for node in s.nodes)}
        for s in topology.switches
    ]


def gpus_of(nodes: Sequence[NodeRecord]) -> dict[str, int]:
    from pal_slurm.slurm import gres

    return {node.name: sum(item.n for item in gres.gpus_in(node.gres)) for node in nodes}


def missing(topology: Topology, nodes: Sequence[NodeRecord], palctl: Palctl, *, links_count: bool) -> list[str]:
    """What would have to be there for racks to count, and links. `links_count`: not all GPUs of a node are linked."""
    from pal_slurm.model import Tier
    from pal_slurm.slurm.nodes import PLAIN_WORDS, to_cluster

    said = []
    if not topology.switches:
        racks = len(set(to_cluster(nodes, [], site=PLAIN_WORDS).rack.tolist()))
        instead = f"the {racks} racks of the node features count" if racks > 1 else "all nodes count as one rack"
        said.append(f"Slurm tells no switches, blocks or rings; {instead}. Write topology.conf (topology/tree)")
    apps = palctl.config.known_apps().known.values()
    if all(len(set(app.comm)) == 1 for app in apps):
        said.append("no application of pal.yaml says what distance costs it (apps: NAME: comm): racks change nothing")
    if links_count and all(app.unlinked <= app.comm[Tier.NODE] for app in apps):
        said.append("no application of pal.yaml says what GPUs without a link cost it (apps: NAME: comm: unlinked)")
    return said
