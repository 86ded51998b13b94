"""The sender of a request: named in the file and by its commit, and proven by a signature."""

from __future__ import annotations

from typing import Any

from a2a.doors.git_bus.models import BusRequest, Strangers
from a2a.doors.git_bus.passes import Pass
from ledger.errors import Sentence

NOT_SIGNED = Sentence("The commit is not signed.")
# Columns that say who made the commit.
OF_AUTHOR = ("commit", "author", "signer", "key", "doubt")


def note_author(bus_pass: Pass, row: BusRequest, path: str) -> None:
    """Set, and do not save, what the newest commit of the file says about its author."""
    author = bus_pass.repository.author_of(bus_pass.head, path, bus_pass.bus.allowed_signers)
    row.commit, row.author, row.signer, row.key, row.doubt = "", "", "", "", ""
    if author is not None:
        row.commit, row.doubt = author.commit, author.problem[:200]
        row.author = f"{author.name} <{author.email}>"
        row.signer, row.key = author.signer, author.key


def is_signed(bus_pass: Pass, path: str) -> bool:
    """True if an allowed signer has signed the file as it is."""
    author = bus_pass.repository.author_of(bus_pass.head, path, bus_pass.bus.allowed_signers)
    return author is not None and bool(author.signer) and bool(bus_pass.bus.allowed_signers.strip())


def is_stranger(row: BusRequest) -> bool:
    """None of the bus's allowed signers has signed the commit."""
    return not (row.signer and row.bus.allowed_signers.strip())


def columns_of(row: BusRequest) -> dict[str, Any]:
    """The columns read of the file and of its commit, to be saved."""
    names = ("blob", "method", "sender_id", "parent_id", *OF_AUTHOR)
    return {name: getattr(row, name) for name in names}


def demands_signatures(row: BusRequest) -> bool:
    return row.bus.strangers == Strangers.REFUSE


def is_refused(row: BusRequest) -> bool:
    """The bus demands signatures, and there is none that counts."""
    return demands_signatures(row) and is_stranger(row)


def trust_in(row: BusRequest) -> str:
    """One sentence for people: what is known about the sender."""
    if row.signer:
        return Sentence("Signed by {signer} ({key}).", signer=row.signer, key=row.key)
    if row.author:
        return Sentence(
            "{doubt} It names {author}; nothing proves that.",
            doubt=Sentence(row.doubt or NOT_SIGNED),
            author=row.author,
        )
    return Sentence("Nobody is known to have sent it.")
