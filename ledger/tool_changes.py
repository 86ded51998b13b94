"""The four-eyes rule for registered tools: what loosens one waits for a second operator.

A change that waits is a row with the whole new version and the version that it was compared with.
Confirming it is a compare-and-set on both: what the second operator saw is what is registered, in
place of what they saw it replace. Commands on the server need nobody else.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import manifests, registrations
from ledger.errors import NotAllowed, NotFound
from ledger.events.account_changes import ChangeKind
from ledger.loosening import loosened
from ledger.manifests import Manifest
from ledger.models import Tenant, ToolChange, ToolChangeState
from ledger.principals import Principal, Surface
from ledger.registrations import Overtaken

VALID = timedelta(days=3)


def change(
    tenant: Tenant, manifest: Manifest, *, in_place_of: str, by: Principal, via: Surface
) -> ToolChange | None:
    """Register the version, or have it wait for a second operator if it loosens the tool.

    ``in_place_of`` is the version that was looked at, empty for none. Returns the change that
    waits. Raises ``registrations.Refused``.
    """
    registrations.check(tenant, manifest)
    with atomic():
        # Compared with what nobody else replaces meanwhile.
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if loosened(registrations.latest(tenant, manifest.name), manifest):
            return _ask(tenant, manifest, in_place_of, by, via)
        origin: dict[str, Any] = {"by": by, "via": via}
        registrations.register(tenant, manifest, in_place_of=in_place_of, **origin)
        return None


def _ask(
    tenant: Tenant, manifest: Manifest, in_place_of: str, by: Principal, via: Surface
) -> ToolChange:
    """The newest request for a tool is the one that counts."""
    current = registrations.current(tenant, manifest.name)
    if in_place_of != (current.sha256 if current else ""):
        raise Overtaken("Somebody has changed the tool meanwhile: look at it as it is now.")
    waiting = open_changes().filter(tenant=tenant, name=manifest.name)
    equal = {"sha256": manifest.sha256, "in_place_of": in_place_of, "asked_by": str(by)}
    if same := waiting.filter(**equal).first():
        return same
    of_name = ToolChange.objects.filter(tenant=tenant, name=manifest.name)
    of_name.filter(state=ToolChangeState.WAITING).update(state=ToolChangeState.OVERTAKEN)
    loosens = loosened(registrations.latest(tenant, manifest.name), manifest)
    row = ToolChange.objects.create(
        tenant=tenant,
        name=manifest.name,
        manifest=manifest.as_json(),
        loosens=loosens,
        asked_by_name=by.display_name,
        expires_at=Now() + VALID,
        **equal,
    )
    sealed = {"version": manifest.sha256, "in_place_of": in_place_of, "loosens": loosens}
    kind = ChangeKind.TOOL_CHANGE_ASKED
    registrations.record(tenant, manifest.name, kind, by, via, **sealed)
    return row


def open_changes() -> QuerySet[ToolChange]:
    """Those that are neither settled nor expired."""
    return ToolChange.objects.filter(state=ToolChangeState.WAITING, expires_at__gt=Now())


def manifest_of(row: ToolChange) -> Manifest:
    """Raises ``Overtaken`` if the row is not what was asked for."""
    manifest = manifests.read(row.manifest)
    if (manifest.sha256, manifest.name) != (row.sha256, row.name):
        raise Overtaken("The change is not what was asked for: ask for it again.")
    return manifest


def confirm(change_id: int, *, sha256: str, by: Principal, via: Surface) -> None:
    """Register the version of this hash that somebody else has asked for.

    Raises ``NotFound, NotAllowed`` and ``registrations.Refused``; nothing was changed then.
    """
    with atomic():
        row = _end(change_id, ToolChangeState.CONFIRMED, by, Q(sha256=sha256))
        if row.asked_by == str(by):
            raise NotAllowed(
                "You asked for it: another operator has to confirm it.", hint="Nothing was changed."
            )
        asked = {"asked_by": row.asked_by, "asked_by_name": row.asked_by_name}
        origin: dict[str, Any] = {"by": by, "via": via, **asked}
        manifest = manifest_of(row)
        registrations.register(row.tenant, manifest, in_place_of=row.in_place_of, **origin)


def decline(change_id: int, *, by: Principal, via: Surface) -> None:
    """Decline it, or take back one's own. Raises ``NotFound``."""
    with atomic():
        row = _end(change_id, ToolChangeState.DECLINED, by)
        kind = ChangeKind.TOOL_CHANGE_DECLINED
        registrations.record(row.tenant, row.name, kind, by, via, version=row.sha256)


def _end(
    change_id: int, state: ToolChangeState, by: Principal, only_if: Q | None = None
) -> ToolChange:
    rows = open_changes().filter(only_if or Q(), pk=change_id)
    who = {"ended_by": str(by), "ended_by_name": by.display_name, "ended_at": Now()}
    if not rows.update(state=state, **who):
        raise NotFound("No such change waits: it was settled, replaced, or its time was up.")
    return ToolChange.objects.select_related("tenant").get(pk=change_id)
