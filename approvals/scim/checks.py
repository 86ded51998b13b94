"""Check of the settings of SCIM, before a process starts."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.core.checks import CheckMessage, Error

from approvals.models import Role
from approvals.people import company_sign_in

LEAST = 32  # characters: who knows the token may close accounts


def directory() -> Iterator[CheckMessage]:
    if not settings.SCIM_TOKEN:
        return
    faults = list(_of_roles())
    if len(settings.SCIM_TOKEN) < LEAST:
        faults.append(f"ASSENT_SCIM_TOKEN is shorter than {LEAST} characters")
    if not settings.SCIM_TENANT:
        faults.append("ASSENT_SCIM_TENANT is not set")
    for fault in faults:
        yield Error(
            f"{fault}: the directory cannot be served.",
            hint="docs/operators-people.md says what belongs there (SCIM).",
            id="assent.E019",
        )


def _of_roles() -> Iterator[str]:
    try:
        entries = company_sign_in.mapped_roles(of_directory=True)
    except ValueError as failure:
        yield str(failure).rstrip(".")
        return
    for entry in entries:
        if entry.goal == Role.OPERATOR:
            yield f"ASSENT_OIDC_ROLES makes {entry.value} operators, which takes two people"
        if entry.tenant != settings.SCIM_TENANT:
            yield f"ASSENT_OIDC_ROLES gives {entry.value} a role in {entry.tenant}, not ours"
