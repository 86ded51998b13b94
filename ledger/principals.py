"""Who acts: a user, an agent, or the system itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """``str(principal)`` is what rows keep (``user:7``, ``agent:acme/helpdesk``).

    It never changes and is never given to anybody else. ``name`` is a label for people to read:
    it may change, and decides nothing.
    """

    kind: str
    id: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    @property
    def display_name(self) -> str:
        return self.name or self.id


def user(pk: int, name: str) -> Principal:
    """A person, by the primary key of the account. User names are labels: people are renamed."""
    return Principal("user", str(pk), name)


def agent(tenant: str, slug: str, name: str = "") -> Principal:
    """Agents of two tenants may share a slug, so the tenant is part of who they are."""
    return Principal("agent", f"{tenant}/{slug}", name)


POLICY = Principal("system", "policy", "Policy")
SWEEPER = Principal("system", "sweeper", "Time-to-live")
WORKER = Principal("system", "worker", "Worker")
