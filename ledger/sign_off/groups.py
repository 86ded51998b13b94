"""Groups: people of a tenant who sign together, each from one day to another.

Whoever is in a group signs only while they are an approver of the tenant as well: a group gives no
right, it says whose signature a rule asks for. Taking somebody out holds at once; adding somebody,
or for longer, takes two operators. A directory of people, as sign-in with the company reads it,
keeps its own members by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils import timezone

from ledger import seals
from ledger.errors import InvalidRequest, NotFound, NotPossible, Sentence
from ledger.events import ChangeKind, four_eyes, record_change
from ledger.models import ChangeRequest, Group, GroupMember, Tenant
from ledger.principals import Principal, Surface
from ledger.sign_off.rules import BUILT_IN, Rule, refuse_agents

KIND = "group"
NAME_MOST = 63


def groups_of(tenant: str, principal: str) -> dict[str, str]:
    """The groups that this person is in now, each with whom they stand in for; empty: nobody."""
    rows = GroupMember.objects.live().filter(group__tenant=tenant, person=principal)
    return dict(rows.order_by("group__name").values_list("group__name", "in_place_of"))


def members_of(tenant: str, names: Collection[str]) -> dict[str, list[GroupMember]]:
    """The present members of these groups, by group."""
    rows = GroupMember.objects.live().filter(group__tenant=tenant, group__name__in=names)
    members: dict[str, list[GroupMember]] = {name: [] for name in names}
    for row in rows.select_related("group").order_by("person_name"):
        members[row.group.name].append(row)
    return members


def make(tenant: str, name: str, *, by: Principal, via: Surface) -> Group:
    """A group without members. Raises ``InvalidRequest``."""
    refuse_agents(by)
    if name in BUILT_IN:
        raise InvalidRequest(Sentence("{name} is a built-in group.", name=name))
    with atomic():
        _lock(tenant)
        group, is_new = Group.objects.get_or_create(tenant=tenant, name=name)
        if not is_new:
            raise InvalidRequest(Sentence("There is a group {name} already.", name=name))
        _record_event(tenant, name, ChangeKind.GROUP_MADE, by, via)
    return group


def add(
    group: Group,
    person: Principal,
    *,
    starts_at: datetime,
    ends_at: datetime | None,
    in_place_of: Principal | None,
    by: Principal,
    via: Surface,
) -> ChangeRequest | None:
    """Have a second operator confirm that this person joins. A command on the server needs nobody.

    Raises ``InvalidRequest, NotPossible``.
    """
    refuse_agents(by)
    if ends_at is not None and ends_at <= starts_at:
        raise InvalidRequest(Sentence("It ends before it starts."))
    if GroupMember.objects.filter(group=group, person=str(person), removed_at=None).exists():
        raise NotPossible(Sentence("{name} is in it already.", name=person.display_name))
    after = _entry(person, starts_at, ends_at, in_place_of)
    with atomic():
        _lock(group.tenant)
        if by.is_system:
            _join(group, after, by, via)
            return None
        return four_eyes.ask(
            KIND,
            f"{group.name}/{person}",
            after,
            tenant=group.tenant,
            concerns=str(person),
            loosens=["members"],
            by=by,
            via=via,
        )


def remove(member: GroupMember, *, by: Principal, via: Surface) -> None:
    """Take somebody out of a group, at once. Raises ``NotFound`` for who is no member."""
    refuse_agents(by)
    with atomic():
        _lock(member.group.tenant)
        _leave(member, by, via)


def keep_in_step(
    group: Group, person: Principal, *, belongs: bool, claim: str, by: Principal, via: Surface
) -> None:
    """Have somebody in the group while ``by``, a directory of people, says so with this claim.

    Ends only what ``by`` began: a membership that operators made stays as it is.
    """
    refuse_agents(person)
    with atomic():
        _lock(group.tenant)
        rows = GroupMember.objects.filter(group=group, person=str(person), removed_at=None)
        member = rows.filter(Q(ends_at=None) | Q(ends_at__gt=Now())).first()
        if belongs and member is None:
            _join(group, _entry(person, timezone.now()), by, via, claim=claim)
        elif not belongs and member is not None and member.added_by == str(by):
            _leave(member, by, via, claim=claim)


def _leave(member: GroupMember, by: Principal, via: Surface, **details: str) -> None:
    rows = GroupMember.objects.filter(pk=member.pk, removed_at=None)
    if not rows.update(removed_at=Now()):
        raise NotFound()
    of, details = member.group, {**details, "person_name": member.person_name}
    kind = ChangeKind.GROUP_MEMBER_REMOVED
    _record_event(of.tenant, of.name, kind, by, via, person=member.person, **details)


def _entry(
    person: Principal,
    starts_at: datetime,
    ends_at: datetime | None = None,
    in_place_of: Principal | None = None,
) -> dict[str, str]:
    return {
        "person": str(person),
        "person_name": person.display_name,
        "starts_at": starts_at.isoformat(),
        "ends_at": ends_at.isoformat() if ends_at else "",
        "in_place_of": str(in_place_of) if in_place_of else "",
        "in_place_of_name": in_place_of.display_name if in_place_of else "",
    }


def _join(group: Group, after: dict[str, Any], by: Principal, via: Surface, **told: str) -> None:
    # One whose time is over makes room for their next one.
    over = GroupMember.objects.filter(group=group, person=after["person"], ends_at__lte=Now())
    over.filter(removed_at=None).update(removed_at=Now())
    if GroupMember.objects.filter(group=group, person=after["person"], removed_at=None).exists():
        raise NotPossible(four_eyes.NO_SUCH_CHANGE)
    row = GroupMember.objects.create(
        group=group,
        person=after["person"],
        person_name=after["person_name"],
        starts_at=datetime.fromisoformat(after["starts_at"]),
        ends_at=datetime.fromisoformat(after["ends_at"]) if after["ends_at"] else None,
        in_place_of=after["in_place_of"],
        in_place_of_name=after["in_place_of_name"],
        added_by=str(by),
    )
    details = {
        **after,
        "starts_at": seals.as_text(row.starts_at),
        "ends_at": seals.as_text(row.ends_at),
        **told,
    }
    _record_event(group.tenant, group.name, ChangeKind.GROUP_MEMBER_ADDED, by, via, **details)


def _lock(tenant: str) -> None:
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant)


def _apply(request: ChangeRequest, by: Principal, via: Surface) -> None:
    """Raises ``NotFound, NotPossible``."""
    group = _group_of(request)
    if group is None:
        raise NotFound()
    _join(group, request.after, by, via, **request.asker)


def _record(
    request: ChangeRequest, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    details["person"] = request.after["person"]
    name = request.subject.partition("/")[0]
    _record_event(request.tenant, name, kind, by, via, **details)


def _group_of(request: ChangeRequest) -> Group | None:
    name = request.subject.partition("/")[0]
    return Group.objects.filter(tenant=request.tenant, name=name).first()


def _record_event(
    tenant: str, name: str, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    subject = f"group:{tenant}/{name}"
    record_change(subject, kind, tenant=tenant, by=by, via=via, name=name, details=details)


def check_known(tenant: str, written: Iterable[Rule]) -> None:
    """Raises ``InvalidRequest`` for seats that nobody could ever fill: the group is not there."""
    there = set(Group.objects.filter(tenant=tenant).values_list("name", flat=True))
    named = {group for rule in written for group in rule.then.groups}
    if unknown := sorted(named - there - BUILT_IN):
        raise InvalidRequest(
            Sentence("There is no group named {names}: make it first.", names=", ".join(unknown))
        )


def register() -> None:
    events = (ChangeKind.GROUP_CHANGE_ASKED, ChangeKind.GROUP_CHANGE_DECLINED)
    four_eyes.register(four_eyes.Kind(*events, _record, _apply), KIND)
