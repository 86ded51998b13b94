"""Bearer tokens of agents."""

from __future__ import annotations

from django.http import HttpRequest
from ninja.security import HttpBearer

from ledger.agents import Caller, caller_with
from ledger.models import Scope

# In an ASGI scope: whether the token of the request was usable a few seconds ago. This is not
# authentication; without it nothing of the body is parsed on the event loop.
TOKEN_IS_KNOWN = "assent.token_is_known"
# In the scope of a long-poll: whether it waited, so that answering it is not another poll.
HAS_WAITED = "assent.has_waited"


def token_in(authorization: bytes) -> str:
    """The bearer token in the value of a header; empty if there is none."""
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class AgentBearer(HttpBearer):
    """A token that is neither revoked nor expired, of an active agent."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        return caller_with(token)


def caller_of(request: HttpRequest, scope: Scope | None = None) -> Caller:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    if scope is not None:
        caller.require(scope)
    return caller
