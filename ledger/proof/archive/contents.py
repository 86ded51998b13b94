"""The decisions of one tenant in one period, and the changes of rules and rights that explain them.

Each is an event or a decision record with its place in the log, so that ``examples/verify.py``
proves it without a database. docs/audit.md has the format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

from django.db.models import Q, QuerySet

from ledger.events import ChangeKind
from ledger.models import Event, Transaction
from ledger.models.events import Checkpoint
from ledger.proof.audit import decision_records, stream
from ledger.proof.audit.decision_records import Record
from ledger.proof.log import checkpoints
from ledger.seals import Link
from ledger.states import EventKind

# Yes, no, and what ended without a word: a refusal by a rule, a time limit.
DECIDED = frozenset(
    {
        EventKind.APPROVAL_RECORDED,
        EventKind.APPROVED,
        EventKind.APPROVAL_WITHDRAWN,
        EventKind.PASSED_ON,
        EventKind.REJECTED,
        EventKind.SENT_BACK,
        EventKind.REFUSED,
        EventKind.EXPIRED,
    }
)
OF_TENANT = (
    ChangeKind.RULES_ACTIVATED,
    ChangeKind.RULES_ASKED,
    ChangeKind.RULES_DECLINED,
    ChangeKind.GROUP_MADE,
    ChangeKind.GROUP_MEMBER_ADDED,
    ChangeKind.GROUP_MEMBER_REMOVED,
    ChangeKind.GROUP_CHANGE_ASKED,
    ChangeKind.GROUP_CHANGE_DECLINED,
)
# Those without a tenant stop all tenants.
BRAKES = (ChangeKind.BRAKE_PUT, ChangeKind.BRAKE_LIFTED)
ROLES = (ChangeKind.ROLE_GRANTED, ChangeKind.ROLE_REVOKED)
FLAGS = (
    ChangeKind.USER_CREATED,
    ChangeKind.USER_ACTIVATED,
    ChangeKind.USER_DEACTIVATED,
    ChangeKind.STAFF_GRANTED,
    ChangeKind.STAFF_REVOKED,
    ChangeKind.SUPERUSER_GRANTED,
    ChangeKind.SUPERUSER_REVOKED,
)
AT_ONCE = 500  # events of which the places are looked up together


class NotYetSigned(Exception):
    """The newest of these events is under no checkpoint yet."""


@dataclass(frozen=True, slots=True)
class Period:
    """From an instant on until before another, in one tenant."""

    tenant: str
    begins_at: datetime
    ends_at: datetime

    def of(self, kinds: frozenset[str]) -> QuerySet[Event]:
        return Event.objects.filter(
            tenant=self.tenant, kind__in=kinds, at__gte=self.begins_at, at__lt=self.ends_at
        )


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of subject that is decided upon: by which events, and its record."""

    decided: frozenset[str]
    record: Callable[[UUID], Record]


def _of_transaction(subject: UUID) -> Record:
    return decision_records.of_transaction(Transaction.objects.get(pk=subject))


sources: list[Source] = [Source(DECIDED, _of_transaction)]


def register_source(decided: frozenset[str], record: Callable[[UUID], Record]) -> None:
    """Put the subjects of an upper room into archives. Called in ``AppConfig.ready()``."""
    sources.append(Source(decided, record))


def log_over(period: Period) -> Checkpoint:
    """The newest checkpoint, which is over all events of the period. Raises ``NotYetSigned``."""
    point = checkpoints.latest()
    upto = 0 if point is None else point.upto_event
    if point is None or Event.objects.filter(pk__gt=upto, at__lt=period.ends_at).exists():
        raise NotYetSigned("Events of the period are under no checkpoint yet.")
    return point


def head_of(period: Period) -> Checkpoint | None:
    """The first checkpoint over all decisions of the period; ``None`` if there are none.

    Nobody could choose it, so it says by chance, and reproducibly, which of them are looked at.
    """
    kinds = frozenset[str]().union(*(source.decided for source in sources))
    last = period.of(kinds).order_by("-pk").values_list("pk", flat=True).first()
    return None if last is None else checkpoints.covering(last)


def records(period: Period) -> Iterator[tuple[Record, frozenset[str]]]:
    """The decision record of each subject that was decided upon, in the order of their ids, and
    the kinds of events that decide on it."""
    for source in sources:
        decided = period.of(source.decided).order_by("subject").distinct()
        for (subject,) in stream(decided, ["subject"]):
            yield source.record(subject), source.decided


def changes(period: Period, point: Checkpoint) -> Iterator[Record]:
    """The changes of rules, groups and rights, and the brakes, until the end of the period.

    Of people: those who ever had a role in the tenant, and superusers.
    """
    people = Event.objects.filter(
        Q(tenant=period.tenant, kind__in=ROLES) | Q(kind=ChangeKind.SUPERUSER_GRANTED), to_state=""
    )
    of_people = Q(subject__in=people.values("subject"), kind__in=FLAGS)
    of_tenant = Q(tenant=period.tenant, kind__in=(*OF_TENANT, *ROLES))
    brakes = Q(tenant__in=["", period.tenant], kind__in=BRAKES)
    rows = Event.objects.filter(of_tenant | brakes | of_people, to_state="", at__lt=period.ends_at)
    links = (Link(*each) for each in stream(rows.order_by("pk"), Link._fields))
    while part := list(islice(links, AT_ONCE)):
        places = checkpoints.inclusions([link.id for link in part], point)
        yield from (decision_records.with_place(link, places.get(link.id)) for link in part)
