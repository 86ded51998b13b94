"""A small outside world inside the test process: it holds, it counts effects, it can misbehave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime


@dataclass
class World:
    """Effects by operation key; whatever a tool does goes through here."""

    effects: Counter[str] = field(default_factory=Counter)
    receipts: dict[str, str] = field(default_factory=dict)
    holds: set[str] = field(default_factory=set)
    plans: int = 0
    # Called in place of a well-behaved answer, once each, in this order.
    before: list[Callable[[], None]] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    rollback_trouble: list[Exception] = field(default_factory=list)
    hold_expires_at: datetime | None = None
    planning: Callable[[], None] | None = None
    # What ``reserve`` has reserved, by the number of the reservation, and how a room is priced.
    reserved: dict[str, str] = field(default_factory=dict)
    price: int = 100
    is_closed: bool = False
    is_valid: Callable[[], bool] = field(default_factory=lambda: lambda: True)
    result: Callable[[str], object] = field(
        default_factory=lambda: lambda receipt: {"receipt_id": receipt}
    )

    def hold(self, key: str) -> str:
        self.holds.add(key)
        return f"hold:{key}"

    def release(self, key: str) -> None:
        if self.rollback_trouble:
            raise self.rollback_trouble.pop(0)
        self.holds.discard(key)

    def reserve(self, what: str) -> str:
        number = f"r{len(self.reserved) + self.plans}"
        self.reserved[number] = what
        return number

    def perform(self, key: str, *, honours_key: bool = True) -> object:
        if self.before:
            self.before.pop(0)()
        if not (honours_key and key in self.receipts):
            self.effects[key] += 1
            self.receipts[key] = f"re_{len(self.receipts) + 1}"
        self.holds.discard(key)
        if self.after:
            self.after.pop(0)()
        return self.result(self.receipts[key])

    def undo(self, key: str) -> str:
        self.effects[key] -= 1
        return f"undo_{self.receipts[key]}"

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]


world = World()
