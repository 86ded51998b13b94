"""Script of a storm, derived from its seed: proposals, decisions and faults.

The seed fixes what is proposed, what becomes of it, which faults happen and after how many
acknowledged proposals each begins. Threads and processes still interleave as they like: a seed
repeats the storm, not the order of its instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

TOOLS = {"transfer": 35, "reserve": 25, "demolish": 5, "wire": 10, "order": 15, "note": 10}
FATES = {"approve": 62, "reject": 13, "cancel": 8, "expire": 7, "race": 10}
EXPIRES_AFTER_S = 6  # the least that the contract allows is 5
DECIDED_WITHIN_S = 150
# How the client behaves: once, the same request twice at a time, again after the answer, another
# agent with the same operation.
MANNERS = {"once": 84, "twice": 6, "again": 6, "rival": 4}


@dataclass(frozen=True, slots=True)
class Proposed:
    """One proposal, and what the clients of the storm will do with it."""

    number: int
    tool: str
    fate: str
    manner: str
    key: str
    by_a2a: bool
    is_compensated: bool

    @property
    def body(self) -> dict[str, Any]:
        ttl = {"ttl_s": EXPIRES_AFTER_S} if self.fate == "expire" else {"ttl_s": DECIDED_WITHIN_S}
        reason = f"storm, proposal {self.number}"
        arguments: dict[str, Any] = {"reference": f"r{self.number}"}
        if self.tool in CHANGED:
            arguments["times"] = 7  # wrong: people correct some of them
        named = {"tool": self.tool, "arguments": arguments, "reason": reason}
        return {**named, "run_id": self.key, **ttl}


# People correct what these are asked for, ask about it or give it time, one in so many each.
CHANGED = frozenset({"transfer", "reserve"})
ONE_IN = 5


def proposal(seed: int, number: int) -> Proposed:
    """Proposal ``number`` of this storm."""
    dice = Random(f"{seed}:proposal:{number}")
    tool = _one_of(dice, TOOLS)
    fate = _one_of(dice, FATES)
    return Proposed(
        number=number,
        tool=tool,
        # A policy decides on a note at once, whatever the script says.
        fate="leave" if tool == "note" else fate,
        manner=_one_of(dice, MANNERS),
        key=f"storm-{seed}-{number}",
        by_a2a=dice.random() < 0.08,
        is_compensated=tool == "transfer" and fate == "approve" and dice.random() < 0.12,
    )


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault: it begins once ``at`` proposals were acknowledged, and lasts ``seconds``."""

    number: int
    at: int
    kind: str
    seconds: float
    dice: str  # seeds whatever else is left to chance

    def random(self) -> Random:
        return Random(self.dice)


def faults(seed: int, transactions: int, count: int, kinds: dict[str, float]) -> list[Planned]:
    """``count`` faults, evenly spread over the work.

    Each kind (with the seconds that it lasts at most) comes before any comes a second time.
    """
    dice = Random(f"{seed}:faults")
    planned: list[Planned] = []
    while len(planned) < count:
        bag = sorted(kinds)
        dice.shuffle(bag)
        for kind in bag[: count - len(planned)]:
            number = len(planned)
            at = int((number + dice.random()) * transactions / count)
            seconds = round(kinds[kind] * dice.uniform(0.3, 1), 2)
            planned.append(Planned(number, at, kind, seconds, f"{seed}:fault:{number}"))
    return planned


def _one_of(dice: Random, shares: dict[str, int]) -> str:
    return dice.choices(list(shares), list(shares.values()))[0]
