"""The keys of pal.yaml that are about people: pal-page, and what users may ask. In: nothing. Out: their sections."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pal_slurm.config.section import Section, why


class PageSection(Section, frozen=True):
    listen: Annotated[
        str, why("ADDRESS:PORT where pal-page answers, or unix:PATH, a socket for its group.", min_length=1)
    ] = "127.0.0.1:9753"
    user_header: Annotated[
        str,
        why(
            "Header in which the proxy in front says who is logged in, for example X-Remote-User; empty: nobody is.",
            pattern=r"^([A-Za-z][A-Za-z0-9-]{0,63})?\Z",
        ),
    ] = ""
    proxy: Annotated[
        str,
        why("IP address of that proxy: from any other the header is refused. Not needed where listen is unix:PATH."),
    ] = ""
    privacy: Annotated[
        Literal["users", "open"],
        why(
            "users: who did not log in sees of jobs that they are there, who did sees his own in full; open: everybody "
            "sees whose each job is and what it runs."
        ),
    ] = "users"
    admins: Annotated[tuple[str, ...], why("Users who see everything when they are logged in.")] = ()
    hosts: Annotated[
        tuple[str, ...],
        why(
            "Names of the page in addresses, without ports, for example gpus.example: a request for another Host is "
            "refused, so that no web page elsewhere reads this one through a name of its own. IP addresses, localhost "
            "and the name in listen are always taken."
        ),
    ] = ()
    most_clients: Annotated[
        int, why("Connections at a time; of more, those that have said nothing make way.", ge=8, le=10_000)
    ] = 512
    jwt_key: Annotated[
        str,
        why(
            "Slurm's key of tokens (AuthAltParameters=jwt_key=...), to be read by pal-page: users of login hosts may "
            "then ask with a token of theirs. Empty: none is believed."
        ),
    ] = ""
    url_file: Annotated[
        str,
        why(
            "As database.url_file, for pal-page alone: a user of the database server who may only read. Empty: as pald."
        ),
    ] = ""
    view_file: Annotated[
        str,
        why("Where pald puts what it sees, for pal-page to read; empty: now.json beside cycle.alive_file, if that is."),
    ] = ""

    def view(self, alive_file: str) -> Path | None:
        return beside(self.view_file, alive_file, "now.json")


class UsersSection(Section, frozen=True):
    enabled: Annotated[bool, why("Users may ask pald of their own jobs: palctl why, jobs, apps.")] = True
    socket: Annotated[
        str, why("Where they ask; empty: users.sock beside cycle.alive_file, which is where palctl looks for it.")
    ] = ""
    per_minute: Annotated[int, why("Questions of one user that are answered in a minute.", ge=1, le=6000)] = 120

    def path(self, alive_file: str) -> Path | None:
        return beside(self.socket, alive_file, "users.sock") if self.enabled else None


def beside(given: str, alive_file: str, name: str) -> Path | None:
    if given:
        return Path(given)
    return Path(alive_file).parent / name if alive_file else None
