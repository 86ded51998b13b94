"""Parts of the item about what was changed and said: difference, thread, time left, neighbours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from approvals.desk import Viewer, links_in, policies, why_stopped
from approvals.presentation import Difference, differences_in, labels, span_of
from ledger.models import Event, Transaction, Verdict
from ledger.sign_off.revisions import Change, changes_between, content_of
from ledger.states import OPEN, WITH_EFFECT, Ending, EventKind, State
from ledger.transactions import RECOMMENDS, coordinator, standing_advice
from ledger.transactions.deadlines import left_of_rest

MOST_OPEN = 10  # of the thread; earlier entries are folded
STEPS = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=4))
MOST_NEIGHBOURS = 5


@dataclass(frozen=True, slots=True)
class MoreTime:
    """A time until which it can be prolonged, and by how much that is."""

    label: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """The question that waits for its agent; its time limit is paused until then, if it is."""

    event: Event
    rests_until: datetime | None


@dataclass(frozen=True, slots=True)
class Changed:
    """All that is different from what its agent proposed, and the last change of it."""

    differences: list[Difference]
    times: int
    last: Event
    is_done: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """A supervising agent's recommendation, and the policy that it cites, as it was sealed."""

    event: Event
    to_approve: bool
    policy: Any


def advice_on(row: Transaction, events: Iterable[Event]) -> list[Advice]:
    """The advice on the revision that is shown."""
    given = {link.id: link.says for link in standing_advice(links_in(row))}
    return [
        Advice(event, says.get(RECOMMENDS) == Verdict.APPROVE, says.get("policy"))
        for event in events
        if (says := given.get(event.pk)) is not None
    ]


def thread_context(
    row: Transaction, events: Sequence[Event], viewer: Viewer, now: datetime
) -> dict[str, Any]:
    is_open = row.state == State.PREPARED
    asked_by = (row, viewer.principal, viewer.roles, now)
    may_change, may_talk = policies.may_change(*asked_by), policies.may_talk(*asked_by)
    thread = [event for event in events if event.kind in coordinator.THREAD]
    _say_until_when(row, thread)
    replaced = _latest(row, pk=row.replaces) if row.replaces else None
    return {
        "may_change": may_change,
        "why_fixed": coordinator.why_not_editable(row) if may_change else "",
        "may_talk": may_talk,
        "may_note": policies.may_note(row, viewer.roles),
        "advice": advice_on(row, events),
        "changed": changed_in(row, events),
        "thread": thread[-MOST_OPEN:],
        "earlier": thread[:-MOST_OPEN],
        "question": _question(row, events, now) if is_open and row.asked_at else None,
        "more_time": [*_more_time(row)] if may_talk and not why_stopped(row) else [],
        "in_place_of": replaced,
        "since_sent_back": _since(replaced, row) if replaced else [],
        "followed_by": _latest(row, replaces=row.pk) if row.ending == Ending.SENT_BACK else None,
        "neighbours": _neighbours(row),
    }


def changed_in(row: Transaction, events: Iterable[Event]) -> Changed | None:
    """The changes by its revisions; each of their events gets its own ``differences``."""
    revised = [event for event in events if event.kind == EventKind.REVISED]
    if row.revision == 1 or row.content_erased_at is not None or not revised:
        return None
    former = row.revisions.order_by("number").values_list("content", flat=True)
    contents = [*former, content_of(row)]
    for number, event in enumerate(revised[: len(contents) - 1]):
        changes = changes_between(contents[number], contents[number + 1])
        vars(event)["differences"] = _differences(row, changes)
    changes = changes_between(contents[0], contents[-1])
    is_done = row.state in WITH_EFFECT
    return Changed(_differences(row, changes), len(revised), revised[-1], is_done)


def _differences(row: Transaction, changes: Iterable[Change]) -> list[Difference]:
    """Those of arguments in the order of its tool, as below in the details."""
    places = {f"arguments.{each.top}": n for n, each in enumerate(labels.compared(row))}

    def place(change: Change) -> int:
        argument = re.split(r"[.\[]", change.path.removeprefix("arguments."))[0]
        return places.get(f"arguments.{argument}", len(places))

    return differences_in(sorted(changes, key=place))


def _since(replaced: Transaction, row: Transaction) -> list[Difference]:
    """Its differences from the proposal that was sent back."""
    if replaced.tool != row.tool or replaced.content_erased_at or row.content_erased_at:
        return []
    return _differences(row, changes_between(content_of(replaced), content_of(row)))


def _say_until_when(row: Transaction, thread: Iterable[Event]) -> None:
    """Each event of more time gets ``until``."""
    sealed = {link.id: link.says.get("sets") for link in links_in(row)}
    for event in thread:
        sets = sealed.get(event.pk)
        if event.kind == EventKind.EXTENDED and isinstance(sets, dict):
            microseconds = timedelta(microseconds=int(sets["expires_at"]))
            vars(event)["until"] = datetime(1970, 1, 1, tzinfo=UTC) + microseconds


def _question(row: Transaction, events: Sequence[Event], now: datetime) -> Question:
    event = next(each for each in reversed(events) if each.kind == EventKind.ASKED)
    left = left_of_rest(links_in(row), now)
    return Question(event, now + left if left else None)


def _more_time(row: Transaction) -> Iterable[MoreTime]:
    longest = coordinator.longest_of(row, links_in(row))
    for step in STEPS:
        if row.expires_at + step < longest:
            span = span_of(step.total_seconds())
            yield MoreTime(_("{span} longer").format(span=span), row.expires_at + step)
    if longest > row.expires_at:
        yield MoreTime(_("As long as it may wait"), longest)


def _latest(row: Transaction, **which: Any) -> Transaction | None:
    return Transaction.objects.filter(tenant=row.tenant, **which).order_by("-pk").first()


def _neighbours(row: Transaction) -> list[Transaction]:
    """Other open ones that would change the same."""
    if not row.touches or row.state not in OPEN:
        return []
    same = Transaction.objects.filter(
        tenant=row.tenant, touches__overlap=row.touches, state__in=sorted(OPEN)
    )
    return list(same.exclude(pk=row.pk).order_by("pk")[:MOST_NEIGHBOURS])
