"""What the pages of registered tools show: versions, what differs, and what takes two operators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from ledger import manifests, registrations, tool_changes
from ledger.loosening import loosened
from ledger.manifests import Manifest, ManifestRefused
from ledger.models import RegisteredTool, Tenant, ToolChange, ToolVersion
from ledger.principals import Surface
from ledger.registrations import Refused

VIA = Surface.ADMIN
NEWEST = 50  # versions on a page


@dataclass(frozen=True, slots=True)
class Difference:
    """One member that differs; ``loosens`` if it takes a second operator."""

    member: str
    before: str
    after: str
    loosens: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """What registering a text would change; nothing of it is done yet."""

    manifest: Manifest
    in_place_of: str
    is_new: bool
    differences: list[Difference]

    @property
    def takes_two(self) -> bool:
        return any(difference.loosens for difference in self.differences)

    def is_confirmed_by(self, posted: Mapping[str, str]) -> bool:
        """Whether the person has seen just this, in place of just that."""
        seen = (posted.get("seen"), posted.get("in_place_of"))
        return seen == (self.manifest.sha256, self.in_place_of)


def preview(tenant: Tenant, text: str, row: RegisteredTool | None) -> Preview:
    """Raises ``ManifestRefused, Refused``."""
    manifest = manifests.read(manifests.texts.parse(text))
    if row is not None and manifest.name != row.name:
        raise ManifestRefused(
            _("the name stays {name}: register another tool").format(name=row.name)
        )
    registrations.check(tenant, manifest)
    current = registrations.current(tenant, manifest.name)
    if row is None and current is not None:
        raise Refused(_("There is such a tool already: open it, and change it there."))
    latest = registrations.latest(tenant, manifest.name)
    differences = differences_of(current or latest, manifest, loosened(latest, manifest))
    in_place_of = current.sha256 if current else ""
    return Preview(manifest, in_place_of, latest is None, differences)


def differences_of(
    old: Manifest | None, new: Manifest, loosens: list[str] | None = None
) -> list[Difference]:
    changed = registrations.differences(old, new)
    return [
        Difference(member, shown_value(before), shown_value(after), member in (loosens or ()))
        for member, (before, after) in changed.items()
    ]


def shown_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Version:
    """One version that was kept, and what it changed of the one before."""

    row: ToolVersion
    is_current: bool
    text: str
    differences: list[Difference]


def versions_of(tool: RegisteredTool) -> list[Version]:
    """The newest first."""
    rows = ToolVersion.objects.filter(tenant=tool.tenant_id, name=tool.name).order_by("-pk")
    kept = list(rows[: NEWEST + 1])
    read = [_read(row.manifest) for row in kept]
    found = []
    for place, row in enumerate(kept[:NEWEST]):
        manifest = read[place]
        before = read[place + 1] if place + 1 < len(read) else None
        differences = differences_of(before, manifest) if manifest and before else []
        text = manifests.texts.text_of(manifest) if manifest else shown_value(row.manifest)
        found.append(Version(row, row.sha256 == tool.version, text, differences))
    return found


def _read(value: Any) -> Manifest | None:
    try:
        return manifests.read(value)
    except ManifestRefused:
        return None


def all_waiting(tenants: Iterable[str]) -> QuerySet[ToolChange]:
    return tool_changes.open_changes().filter(tenant__in=tenants).order_by("pk")


def waiting_for(tenant: str, name: str) -> ToolChange | None:
    """The change of this tool that waits for a second operator."""
    return tool_changes.open_changes().filter(tenant=tenant, name=name).first()


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A change that waits, as the second operator has to see it."""

    differences: list[Difference]
    text: str
    is_overtaken: bool


def shown_change(change: ToolChange) -> ShownChange:
    manifest = _read(change.manifest)
    if manifest is None or manifest.sha256 != change.sha256:
        return ShownChange([], shown_value(change.manifest), is_overtaken=True)
    current = registrations.current(change.tenant, change.name)
    before = current or registrations.latest(change.tenant, change.name)
    is_overtaken = change.in_place_of != (current.sha256 if current else "")
    differences = differences_of(before, manifest, change.loosens)
    return ShownChange(differences, manifests.texts.text_of(manifest), is_overtaken)


def contract_differences(pinned: Any, seen: Any) -> list[Difference]:
    """What of the contract that an owner publishes is not as it was pinned."""
    before, after = _members(pinned), _members(seen)
    return [
        Difference(member, shown_value(before.get(member)), shown_value(after.get(member)))
        for member in sorted({*before, *after})
        if before.get(member) != after.get(member)
    ]


def _members(contract: Any) -> dict[str, Any]:
    """``promises.plan`` for a member of a member; schemas stay whole."""
    found: dict[str, Any] = {}
    for name, value in (contract or {}).items():
        if name == "promises" and isinstance(value, dict):
            found |= {f"promises.{inner}": one for inner, one in value.items()}
        else:
            found[name] = value
    return found


def standing(row: RegisteredTool) -> str:
    """How a tool stands, in a few words."""
    if row.is_withdrawn:
        return _("withdrawn")
    if row.held:
        return _("held")
    if waiting_for(row.tenant_id, row.name):
        return _("a change waits for a second operator")
    return _("agents may propose it")


def _kept(row: RegisteredTool) -> dict[str, Any]:
    kept = ToolVersion.objects.filter(tenant=row.tenant_id, name=row.name, sha256=row.version)
    return kept.values_list("manifest", flat=True).first() or {}


def kind_of(row: RegisteredTool) -> str:
    return str(_kept(row).get("kind") or "")


def runs_at(row: RegisteredTool) -> str:
    """The host of the service; empty if it has none."""
    address = str(_kept(row).get("address") or "")
    return address.partition("://")[2].partition("/")[0]
