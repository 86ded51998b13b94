"""Versions of a registered tool, their differences, and changes that take two operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from approvals.web.record.pending import (
    Difference,
    Pending,
    asks_to_change,
    show,
    shown_value,
)
from ledger.events import four_eyes
from ledger.models import ChangeRequest, RegisteredTool, SilentAddress, Tenant, ToolVersion
from ledger.principals import Surface
from ledger.tools import manifests, registrations, silent_addresses, tool_version
from ledger.tools.manifests import Manifest, ManifestRefused
from ledger.tools.registrations import Refused, loosened

VIA = Surface.ADMIN
NEWEST = 50  # versions on a page


@dataclass(frozen=True, slots=True)
class Preview:
    """The changes that registering a text would make; nothing of it is done yet."""

    manifest: Manifest
    in_place_of: str
    is_new: bool
    differences: list[Difference]

    @property
    def takes_two(self) -> bool:
        return any(difference.loosens for difference in self.differences)

    def is_confirmed_by(self, posted: Mapping[str, str]) -> bool:
        """True if the person has seen just this, in place of just that."""
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
    versions = []
    for place, row in enumerate(kept[:NEWEST]):
        manifest = read[place]
        before = read[place + 1] if place + 1 < len(read) else None
        differences = differences_of(before, manifest) if manifest and before else []
        text = manifests.texts.text_of(manifest) if manifest else shown_value(row.manifest)
        versions.append(Version(row, row.sha256 == tool.version, text, differences))
    return versions


def _read(value: Any) -> Manifest | None:
    try:
        return manifests.read(value)
    except ManifestRefused:
        return None


def waiting_for(row: RegisteredTool) -> ChangeRequest | None:
    """The change of this tool that waits for a second operator."""
    return four_eyes.waiting_for(registrations.KIND, row.tenant_id, row.name)


def _pending(change: ChangeRequest) -> Pending:
    """A change that waits, as the second operator has to see it."""
    sentence = asks_to_change(change, change.subject)
    manifest, tenant = _read(change.after), Tenant(slug=change.tenant)
    if manifest is None:
        return Pending(sentence, text=shown_value(change.after), is_overtaken=True)
    current = registrations.current(tenant, change.subject)
    before = current or registrations.latest(tenant, change.subject)
    return Pending(
        sentence,
        differences_of(before, manifest, change.loosens),
        text=manifests.texts.text_of(manifest),
        is_overtaken=change.in_place_of != (current.sha256 if current else ""),
    )


show(registrations.KIND, _pending)


def contract_differences(pinned: Any, seen: Any) -> list[Difference]:
    """Differences between the contract that an owner publishes and the pinned one."""
    before, after = _members(pinned), _members(seen)
    return [
        Difference(member, shown_value(before.get(member)), shown_value(after.get(member)))
        for member in sorted({*before, *after})
        if before.get(member) != after.get(member)
    ]


def _members(contract: Any) -> dict[str, Any]:
    """``promises.plan`` for a member of a member; schemas stay whole."""
    members: dict[str, Any] = {}
    for name, value in (contract or {}).items():
        if name == "promises" and isinstance(value, dict):
            members |= {f"promises.{inner}": promise for inner, promise in value.items()}
        else:
            members[name] = value
    return members


def standing(row: RegisteredTool) -> str:
    """The state of a tool, in a few words."""
    if row.is_withdrawn:
        return _("withdrawn")
    if row.is_held:
        return _("held")
    if waiting_for(row):
        return _("a change waits for a second operator")
    return _("agents may propose it")


def silences_of(row: RegisteredTool) -> list[SilentAddress]:
    """The silences of the service that carries it out."""
    tool = tool_version(row.tenant_id, row.name, row.version)
    if tool is None:
        return []
    of_tenant = silent_addresses.silences().filter(tenant=row.tenant_id)
    return list(of_tenant.filter(address=tool.runs_at or tool.name))


def _kept(row: RegisteredTool) -> dict[str, Any]:
    kept = ToolVersion.objects.filter(tenant=row.tenant_id, name=row.name, sha256=row.version)
    return kept.values_list("manifest", flat=True).first() or {}


def kind_of(row: RegisteredTool) -> str:
    return str(_kept(row).get("kind") or "")


def runs_at(row: RegisteredTool) -> str:
    """The host of the service; empty if it has none."""
    address = str(_kept(row).get("address") or "")
    return address.partition("://")[2].partition("/")[0]
