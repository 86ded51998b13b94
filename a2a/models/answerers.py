"""Who may answer a question: roles, the client, and principals, resolved when it is asked."""

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
    """The same list with principals in place of user names.

    An agent knows people by their user names, and a name may pass to another label later; the
    question keeps who was meant. Raises ``InvalidRequest``, in the same words for a name that does
    not exist, is of another tenant, or belongs to somebody who may not answer.
    """
    return list(dict.fromkeys(_resolved(tenant, word) for word in may_answer))


def _resolved(tenant: str, word: str) -> str:
    if word in {CLIENT, APPROVER, OPERATOR}:
        return word
    named = Principal.parse(word)
    if named.tenant == tenant and re.fullmatch(r"[A-Za-z0-9_-]+", named.slug):
        return word
    if named.kind == PrincipalKind.USER and (person := directory(tenant, named.id)):
        return person
    raise InvalidRequest(
        f"{word!r} cannot answer questions of {tenant}.",
        hint=(
            "may_answer takes approver, operator, client, agent:<tenant>/<slug>, or user:<user "
            "name> of an approver or operator of the tenant. Nothing was asked."
        ),
    )
