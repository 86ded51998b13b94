"""The plan: what the documents would make, change and remove; and carrying it out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from django.db.transaction import atomic, set_rollback

from approvals.declared.documents import Document, FilesRefused
from approvals.declared.kinds import (
    REFUSALS,
    Edits,
    Key,
    Place,
    Reference,
    Refused,
    Run,
    Spec,
    words_of,
)
from approvals.declared.registry import kinds
from ledger.foundation.characters import cleaned, one_line
from ledger.models import Tenant

OVERTAKEN = "Somebody has changed it since the plan was made: apply the files again."
Refuse = Callable[["Step", str], object]
Present = Callable[[str, str], dict[Key, Spec]]


class Mark(StrEnum):
    MAKE = "+"
    CHANGE = "~"
    REMOVE = "-"
    SAME = "="
    UNDECLARED = "?"


@dataclass(frozen=True)
class Step:
    mark: Mark
    spec: Spec  # as it is wanted, or as it is where it is in no file
    before: Spec | None = None
    edits: Edits = field(default_factory=dict)

    @property
    def name(self) -> str:
        names = [self.spec.tenant, " ".join(filter(None, self.spec.key))]
        return cleaned(one_line(f"{self.spec.kind} {'/'.join(filter(None, names))}"))

    @property
    def counts(self) -> bool:
        """True if it changes anything."""
        return self.mark in {Mark.MAKE, Mark.CHANGE, Mark.REMOVE}

    def __str__(self) -> str:
        removal = self.spec.removal
        match self.mark:
            case Mark.CHANGE:
                each = (f"{name} {_short(a)} → {_short(b)}" for name, (a, b) in self.edits.items())
                text = f"{self.name}: {', '.join(each)}"
            case Mark.REMOVE:
                text = f"{self.name} {removal}"
            case Mark.UNDECLARED:
                text = f"{self.name} is here and in no file: it stays; with --prune it {removal}"
            case _:
                text = self.name
        return f"{self.mark} {cleaned(one_line(text))}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"


# --- planning -------------------------------------------------------------------------------------


def plan(documents: Sequence[Document], *, prune: bool) -> list[Step]:
    """The steps in their order; removals last, and backwards. Raises ``FilesRefused``."""

    @cache
    def present(kind: str, tenant: str) -> dict[Key, Spec]:
        return {each.key: each for each in kinds()[kind].present(tenant)}

    _check_references(documents, present, prune=prune)
    steps: list[Step] = []
    undeclared: list[Step] = []
    mark = Mark.REMOVE if prune else Mark.UNDECLARED
    for kind in kinds():
        own = [each.spec for each in documents if each.spec.kind == kind]
        for tenant in sorted({spec.tenant for spec in own}):
            there = dict(present(kind, tenant))
            wanted = sorted((spec for spec in own if spec.tenant == tenant), key=lambda s: s.rank())
            steps += [_step(spec, there.pop(spec.key, None)) for spec in wanted]
            gone = [each for each in there.values() if each.is_removable()]
            undeclared += [Step(mark, each, before=each) for each in gone]
    return steps + undeclared[::-1]


def _step(wanted: Spec, before: Spec | None) -> Step:
    if before is None:
        return Step(Mark.SAME if wanted.is_moot() else Mark.MAKE, wanted)
    edits = wanted.edits(before)
    return Step(Mark.CHANGE if edits else Mark.SAME, wanted, before, edits)


def _check_references(documents: Sequence[Document], present: Present, *, prune: bool) -> None:
    """Raises ``FilesRefused`` for a name that is neither in the files nor there to stay."""
    declared = {each.spec.place for each in documents}
    pruned = {place[:2] for place in declared} if prune else set()

    def is_met(spec: Spec, reference: Reference) -> bool:
        places = [place for place in _places(spec.tenant, reference) if place[0] in kinds()]
        if declared & set(places):
            return True
        there = [each for *of, key in places if (each := present(*of).get(key))]
        if there:
            return any(not each.is_removable() or each.place[:2] not in pruned for each in there)
        # What has gone meanwhile, as people do, may stay named where it is named already.
        before = present(spec.kind, spec.tenant).get(spec.key)
        return before is not None and reference in before.needs()

    faults = [
        f"{each.where} ({each.spec.kind}): there is no {reference[0].replace('|', ' or ')} "
        f"{' '.join(reference[1:]) or each.spec.tenant} of {each.spec.tenant}, "
        "neither here nor in the files"
        for each in documents
        for reference in [("tenant",), *each.spec.needs()]
        if not is_met(each.spec, reference)
    ]
    if faults:
        raise FilesRefused(faults)


def _places(tenant: str, reference: Reference) -> list[Place]:
    return [(kind, tenant, reference[1:]) for kind in reference[0].split("|")]


# --- carrying it out ------------------------------------------------------------------------------


def carry_out(steps: Iterable[Step], run: Run, refuse: Refuse) -> int:
    """Each step for itself: one that is refused changes nothing, and the others go on. Returns
    how many changed something."""
    return sum(_is_carried_out(step, run, refuse) for step in steps if step.counts)


def try_out(steps: Iterable[Step], run: Run, refuse: Refuse) -> None:
    """The same, and take all of it back; without what would ask another service, or waits for
    that."""
    out: set[Place] = set()
    tried = []
    for step in steps:
        needed = {place for each in step.spec.needs() for place in _places(step.spec.tenant, each)}
        if step.counts and (step.spec.reaches_out or needed & out):
            out.add(step.spec.place)
        else:
            tried.append(step)
    with atomic():
        carry_out(tried, run, refuse)
        set_rollback(True)


def _is_carried_out(step: Step, run: Run, refuse: Refuse) -> bool:
    made = len(run.made)
    try:
        with nullcontext() if step.spec.reaches_out else atomic():
            _carry_out_one(step, run)
    except REFUSALS as refusal:
        del run.made[made:]
        refuse(step, cleaned(one_line(words_of(refusal))))
        return False
    return True


def _carry_out_one(step: Step, run: Run) -> None:
    """Raises ``REFUSALS``."""
    spec = step.spec
    if not spec.reaches_out:
        Tenant.objects.select_for_update(no_key=True).filter(pk=spec.tenant).first()
    now = spec.now()
    if step.before is None and now is not None and spec.comes_with_another:
        step = _step(spec, now)
    elif now != step.before:
        raise Refused(OVERTAKEN)
    match step:
        case Step(mark=Mark.MAKE):
            spec.make(run)
        case Step(mark=Mark.CHANGE, before=Spec() as before):
            spec.change(before, step.edits, run)
        case Step(mark=Mark.REMOVE):
            spec.remove(run)


def lines(steps: Sequence[Step], *, every: bool) -> Iterator[str]:
    """A line for each step; what stays as it is only where every one is wanted, else counted."""
    same = [step for step in steps if step.mark == Mark.SAME]
    yield from (str(step) for step in steps if every or step.mark != Mark.SAME)
    if same and not every:
        yield f"= {len(same)} as they are"
