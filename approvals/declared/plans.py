"""The plan: what the documents would make, change and remove; and carrying it out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import IntegrityError
from django.db.transaction import atomic, set_rollback

from approvals.declared.documents import Document, FilesRefused
from approvals.declared.kinds import Edits, Kind, Refused, Run, Spec
from approvals.declared.registry import kinds
from ledger.errors import LedgerError
from ledger.foundation.characters import cleaned, one_line
from ledger.models import Tenant
from ledger.tools.credentials import CredentialRefused
from ledger.tools.mcp_upstreams import UpstreamRefused
from ledger.tools.registrations import Refused as ToolRefused

REFUSALS = (
    Refused,
    LedgerError,
    ValidationError,
    UpstreamRefused,
    ToolRefused,
    CredentialRefused,
    IntegrityError,
    ObjectDoesNotExist,
)
OVERTAKEN = "Somebody has changed it since the plan was made: apply the files again."


class Mark(StrEnum):
    MAKE = "+"
    CHANGE = "~"
    REMOVE = "-"
    SAME = "="
    UNDECLARED = "?"


@dataclass(frozen=True)
class Step:
    mark: Mark
    kind: Kind[Any]
    subject: Spec  # as it is wanted, or as it is where it is in no file
    before: Spec | None = None
    edits: Edits = field(default_factory=dict)

    @property
    def name(self) -> str:
        tenant, key = self.subject.tenant, self.subject.key
        return f"{self.kind.name} {tenant if tenant == key else f'{tenant}/{key}'}"

    @property
    def counts(self) -> bool:
        """True if it changes anything."""
        return self.mark in {Mark.MAKE, Mark.CHANGE, Mark.REMOVE}

    def __str__(self) -> str:
        match self.mark:
            case Mark.CHANGE:
                each = (f"{name} {_short(a)} → {_short(b)}" for name, (a, b) in self.edits.items())
                text = f"{self.name}: {', '.join(each)}"
            case Mark.REMOVE:
                text = f"{self.name} {self.kind.removal}"
            case Mark.UNDECLARED:
                removal = f"with --prune it {self.kind.removal}"
                text = f"{self.name} is here and in no file: it stays; {removal}"
            case _:
                text = self.name
        return f"{self.mark} {cleaned(one_line(text))}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"


# --- planning -------------------------------------------------------------------------------------


def plan(documents: Sequence[Document], *, prune: bool) -> list[Step]:
    """The steps in their order; removals last, and backwards. Raises ``FilesRefused``."""
    _check_references(documents, prune=prune)
    steps: list[Step] = []
    undeclared: list[Step] = []
    for kind in kinds().values():
        own = [each.spec for each in documents if each.kind.name == kind.name]
        for tenant in sorted({spec.tenant for spec in own}):
            there = {each.key: each for each in kind.present(tenant)}
            wanted = sorted((spec for spec in own if spec.tenant == tenant), key=kind.rank)
            steps += [_step(kind, spec, there.pop(spec.key, None)) for spec in wanted]
            gone = [each for each in there.values() if kind.is_removable(each)]
            mark = Mark.REMOVE if prune else Mark.UNDECLARED
            undeclared += [Step(mark, kind, each, before=each) for each in gone]
    return steps + undeclared[::-1]


def _step(kind: Kind[Any], wanted: Spec, before: Spec | None) -> Step:
    if before is None:
        return Step(Mark.SAME if kind.is_moot(wanted) else Mark.MAKE, kind, wanted)
    edits = kind.edits(before, wanted)
    return Step(Mark.CHANGE if edits else Mark.SAME, kind, wanted, before, edits)


def _check_references(documents: Sequence[Document], *, prune: bool) -> None:
    """Raises ``FilesRefused`` for a name that is neither in the files nor there to stay."""
    declared = {each.name for each in documents}
    pruned = {name[:2] for name in declared} if prune else set()

    def is_there(name: str, tenant: str, key: str) -> bool:
        if (name, tenant, key) in declared or (name, tenant) in pruned:
            return (name, tenant, key) in declared
        kind = kinds().get(name)
        return kind is not None and kind.find(tenant, key) is not None

    faults = [
        f"{each.place} ({each.kind.name}): there is no {names.replace('|', ' or ')} {key} of "
        f"{each.spec.tenant}, neither here nor in the files"
        for each in documents
        for names, key in [("tenant", each.spec.tenant), *each.spec.needs()]
        if not any(is_there(name, each.spec.tenant, key) for name in names.split("|"))
    ]
    if faults:
        raise FilesRefused(faults)


# --- carrying it out ------------------------------------------------------------------------------


def carry_out(steps: Sequence[Step], run: Run, refused: Callable[[Step, str], object]) -> int:
    """Each step for itself: one that is refused changes nothing, and the others go on. Returns
    how many changed something."""
    return sum(_is_carried_out(step, run, refused) for step in steps if step.counts)


def try_out(steps: Sequence[Step], run: Run, refused: Callable[[Step, str], object]) -> None:
    """The same, and take all of it back; without what would ask another service."""
    with atomic():
        out = {step.name for step in steps if step.kind.reaches_out and step.counts}
        left = [step for step in steps if step.name not in out and not _waits_for(step, out)]
        carry_out(left, run, refused)
        set_rollback(True)


def _waits_for(step: Step, names: set[str]) -> bool:
    tenant = step.subject.tenant
    needed = ((kinds, key) for kinds, key in step.subject.needs())
    return any(
        f"{kind} {tenant}/{key}" in names for each, key in needed for kind in each.split("|")
    )


def _is_carried_out(step: Step, run: Run, refused: Callable[[Step, str], object]) -> bool:
    made = len(run.made)
    try:
        with nullcontext() if step.kind.reaches_out else atomic():
            _carry_out_one(step, run)
    except REFUSALS as refusal:
        del run.made[made:]
        refused(step, _text_of(refusal))
        return False
    return True


def _carry_out_one(step: Step, run: Run) -> None:
    """Raises ``REFUSALS``."""
    tenant, key = step.subject.tenant, step.subject.key
    if not step.kind.reaches_out:
        Tenant.objects.select_for_update(no_key=True).filter(pk=tenant).first()
    now = step.kind.find(tenant, key)
    if step.before is None and now is not None and step.kind.comes_with_another:
        step = _step(step.kind, step.subject, now)
    elif now != step.before:
        raise Refused(OVERTAKEN)
    match step.mark:
        case Mark.MAKE:
            step.kind.make(step.subject, run)
        case Mark.CHANGE:
            step.kind.change(step.before, step.subject, step.edits, run)
        case Mark.REMOVE:
            step.kind.remove(step.subject, run)
        case _:
            pass  # it came with another as it is wanted


def _text_of(refusal: Exception) -> str:
    if isinstance(refusal, ValidationError):
        return " ".join(refusal.messages)
    if isinstance(refusal, IntegrityError):
        return "Something else has its name, or it names what is not there."
    if isinstance(refusal, ObjectDoesNotExist):
        return "It names what is not there, as that was refused."
    return str(refusal)


def lines(steps: Sequence[Step], *, every: bool) -> Iterator[str]:
    """A line for each step; what stays as it is only where every one is wanted, else counted."""
    same = [step for step in steps if step.mark == Mark.SAME]
    yield from (str(step) for step in steps if every or step.mark != Mark.SAME)
    if same and not every:
        yield f"= {len(same)} as they are"
