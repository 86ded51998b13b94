"""Tools that are held: agents cannot propose them, and what is pending cannot be signed off.

Why a tool is held is for its kind to say; an operator who has looked at it lets it go on.
"""

from __future__ import annotations

from django.db.transaction import atomic

from ledger.events import ChangeKind, record_change
from ledger.models import RegisteredTool
from ledger.principals import Principal, Surface


def hold(tenant: str, name: str, why: str, *, by: Principal, via: Surface, **details: str) -> bool:
    """Hold a registered tool; ``False``, and nothing written, if it is held already.

    The event has the reason, or in its place ``details``.
    """
    with atomic():
        free = RegisteredTool.objects.filter(tenant=tenant, name=name, held="")
        if not free.update(held=why[:2000] or "held"):
            return False
        _record(tenant, name, ChangeKind.TOOL_HELD, by, via, **(details or {"reason": why[:2000]}))
    return True


def release(tenant: str, name: str, *, by: Principal, via: Surface) -> bool:
    """End the hold; ``False`` if there was none."""
    with atomic():
        held = RegisteredTool.objects.filter(tenant=tenant, name=name).exclude(held="")
        if not held.update(held=""):
            return False
        _record(tenant, name, ChangeKind.TOOL_RELEASED, by, via)
    return True


def why_tool_held(tenant: str, name: str) -> str:
    """Empty if it is not held."""
    rows = RegisteredTool.objects.filter(tenant=tenant, name=name)
    return rows.values_list("held", flat=True).first() or ""


def _record(
    tenant: str, name: str, kind: ChangeKind, by: Principal, via: Surface, **details: str
) -> None:
    subject = f"tool:{tenant}/{name}"
    record_change(subject, kind, tenant=tenant, by=by, via=via, name=name, details=details)
