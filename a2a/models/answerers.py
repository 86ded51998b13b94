"""Answerers of a question: roles, the client, and principals; resolved when it is asked."""

from __future__ import annotations

import re
from collections.abc import Callable

from ledger.errors import InvalidRequest
from ledger.principals import Principal, PrincipalKind

CLIENT, APPROVER, OPERATOR = "client", "approver", "operator"
Directory = Callable[[str, str], str | None]


def nobody(tenant: str, user_name: str) -> str | None:
    return None


# From a tenant and a user name to the principal of a person who may answer there, or ``None``.
# The room that knows the people sets it in ``AppConfig.ready()``.
directory: Directory = nobody


def resolved(tenant: str, may_answer: list[str]) -> list[str]:
    """The list with principals in place of user names, without duplicates.

    Agents know people by their user names, which may change; the question stores the principal.
    Raises ``InvalidRequest``, with the same text for a name that does not exist, is of another
    tenant, or belongs to a person who may not answer.
    """
    return list(dict.fromkeys(_resolved(tenant, name) for name in may_answer))


def _resolved(tenant: str, answerer: str) -> str:
    if answerer in {CLIENT, APPROVER, OPERATOR}:
        return answerer
    named = Principal.parse(answerer)
    if named.tenant == tenant and re.fullmatch(r"[A-Za-z0-9_-]+", named.slug):
        return answerer
    if named.kind == PrincipalKind.USER and (person := directory(tenant, named.id)):
        return person
    raise InvalidRequest(
        f"{answerer!r} cannot answer questions of {tenant}.",
        hint=(
            "may_answer takes approver, operator, client, agent:<tenant>/<slug>, or user:<user "
            "name> of an approver or operator of the tenant. Nothing was asked."
        ),
    )
