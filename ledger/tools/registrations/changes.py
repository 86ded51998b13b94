"""Changes of registered tools: what loosens one waits for a second operator.

What the second operator saw is what is registered, in place of what they saw it replace. Commands
on the server need nobody else.
"""

from __future__ import annotations

from typing import Any

from django.db.transaction import atomic

from ledger import seals
from ledger.events import ChangeKind, four_eyes
from ledger.models import ChangeRequest, Tenant
from ledger.principals import Principal, Surface
from ledger.tools import manifests
from ledger.tools.manifests import Manifest
from ledger.tools.registrations import versions
from ledger.tools.registrations.manifest_changes import loosened
from ledger.tools.registrations.versions import Overtaken

KIND = "tool"
EVENTS = (ChangeKind.TOOL_CHANGE_ASKED, ChangeKind.TOOL_CHANGE_DECLINED)


def change(
    tenant: Tenant, manifest: Manifest, *, in_place_of: str, by: Principal, via: Surface
) -> ChangeRequest | None:
    """Register the version, or have it wait for a second operator if it loosens the tool.

    ``in_place_of`` is the version that was looked at, empty for none. Returns the change that
    waits. Raises ``registrations.Refused``.
    """
    versions.check(tenant, manifest)
    origin: dict[str, Any] = {"in_place_of": in_place_of, "by": by, "via": via}
    with atomic():
        # Compared with what nobody else replaces meanwhile.
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        loosens = loosened(versions.latest(tenant, manifest.name), manifest)
        if not loosens:
            versions.register(tenant, manifest, **origin)
            return None
        current = versions.current(tenant, manifest.name)
        if in_place_of != (current.sha256 if current else ""):
            raise Overtaken("Somebody has changed the tool meanwhile: look at it as it is now.")
        after = manifest.as_json()
        origin |= {"tenant": tenant.slug, "loosens": loosens}
        return four_eyes.ask(KIND, manifest.name, after, **origin)


def _apply(request: ChangeRequest, by: Principal, via: Surface) -> None:
    """Raises ``registrations.Refused``."""
    versions.register(
        Tenant.objects.get(slug=request.tenant),
        manifests.read(request.after),
        in_place_of=request.in_place_of,
        by=by,
        via=via,
        **request.asker,
    )


def _record(
    request: ChangeRequest, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    details["version"] = seals.digest_of(request.after)
    tenant = Tenant(slug=request.tenant)
    versions.record(tenant, request.subject, kind, by, via, **details)


def register() -> None:
    four_eyes.register(four_eyes.Kind(*EVENTS, _record, _apply), KIND)
