"""Origins of tasks and requests, as told by the optional doors that brought them.

Each door registers itself in its ``AppConfig.ready()``; without any, nothing has an origin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from a2a.models import Task
from ledger.models import Transaction


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin as people see it; ``trust`` is empty if unknown, or if it is said elsewhere."""

    bus: str
    commit: str
    named: str  # the sender, or who has answered, by their own word
    trust: str
    is_ours: bool  # we have sent it, and another did it
    is_above: bool  # it was delegated by the task that came over the bus

    def __str__(self) -> str:
        if self.is_ours:
            answer = f" The answer: {self.trust}" if self.trust else ""
            return f"Sent through the git repository of {self.bus}.{answer}"
        came = "Delegated by a task that came" if self.is_above else "Came"
        commit = f" with commit {self.commit}" if self.commit else ""
        named = f"; the request names {self.named} as its sender" if self.named else ""
        return (
            f"{came} through the git repository of {self.bus}{commit}{named}. {self.trust}".strip()
        )


class RejectOption(Protocol):
    """A reason for a rejection that the client offers."""

    @property
    def text(self) -> str: ...

    @property
    def label(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AskedAs:
    """A transaction as its client asked for it, in terms of its own."""

    is_bound: bool  # a tool here stands in for a function of the client's own
    function: str = ""  # its name; empty once it is erased
    notes: Sequence[str] = ()  # what people are told besides the arguments
    reject_options: Sequence[RejectOption] = field(default=())


TaskOrigin = Callable[[Task], Origin | None]
RequestOrigin = Callable[[Transaction], AskedAs | None]
_of_tasks: list[TaskOrigin] = []
_of_requests: list[RequestOrigin] = []


def register(origin: TaskOrigin) -> None:
    _of_tasks.append(origin)


def register_requests(origin: RequestOrigin) -> None:
    _of_requests.append(origin)


def of_task(task: Task) -> Origin | None:
    """The origin of the task, or of the nearest one above it that has one."""
    return next(filter(None, (origin(task) for origin in _of_tasks)), None)


def of_transaction(transaction: Transaction) -> Origin | None:
    """The origin of the task that the transaction stands for."""
    if not _of_tasks:
        return None
    task = Task.objects.filter(transaction=transaction).order_by("pk").first()
    return of_task(task) if task is not None else None


def asked_as(row: Transaction) -> AskedAs | None:
    """The client's own terms for the transaction; ``None`` for most."""
    return next(filter(None, (origin(row) for origin in _of_requests)), None)
