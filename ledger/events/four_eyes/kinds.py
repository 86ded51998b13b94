"""Register of what can be changed by two operators, and of checks that they are two people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.models import ChangeRequest
from ledger.principals import Principal


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of change. Its functions run in the database transaction that writes the request.

    ``record(request, event_kind, by, via, **details)`` appends an event to the subject's chain.
    ``apply(request, by, via)`` makes the change; what is signed has the ``assertion`` as well.
    """

    asked: str
    declined: str
    record: Callable[..., object]
    apply: Callable[..., None]
    # Why this operator may not confirm it; empty if they may.
    refusal: Callable[[ChangeRequest, Principal], str] = lambda request, by: ""
    # The event of a change that was made alone, and read; for kinds that can be.
    read: str = ""
    # The statement with a nonce that whoever confirms this one has to sign; ``None`` if nothing.
    signed: Callable[[ChangeRequest, str], Mapping[str, Any] | None] = lambda request, nonce: None


KINDS: dict[str, Kind] = {}
CHECKS: list[Callable[[ChangeRequest, Principal], None]] = []


def register(kind: Kind, *names: str) -> None:
    """Called in ``AppConfig.ready()``."""
    KINDS.update(dict.fromkeys(names, kind))


def register_check(check: Callable[[ChangeRequest, Principal], None]) -> None:
    """A check of every confirmation, which raises ``NotAllowed``."""
    CHECKS.append(check)
