"""Who sent a request: named in the file, named by its commit, and proven by a signature."""

from __future__ import annotations

from a2a.git_bus.git import Author
from a2a.models import BusRequest, GitBus


def note(row: BusRequest, author: Author | None) -> None:
    """Keep what the commit says about its author."""
    if author is None:
        return
    row.commit = author.commit
    row.author = f"{author.name} <{author.email}>"
    row.signer, row.key = author.signer, author.key


def is_stranger(bus: GitBus, row: BusRequest) -> bool:
    """Nobody whom the bus names among its allowed signers has signed the commit."""
    return not (row.signer and bus.allowed_signers.strip())


def trust_in(row: BusRequest) -> str:
    """One sentence for people: what is known about the sender."""
    if row.signer:
        return f"Signed by {row.signer} ({row.key})."
    if row.author:
        return f"Not signed. The commit names {row.author}; nothing proves it."
    return "Nobody is known to have sent it."
