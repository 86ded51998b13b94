"""Principals that act: a user, an agent, or the system itself; and through which surface."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Surface(str):
    """Through what somebody acts, or sees. The audit log seals the values: they never change.

    Optional apps name surfaces of their own: ``Surface("mcp")``.
    """

    WEB: ClassVar[Surface]
    SLACK: ClassVar[Surface]
    REST: ClassVar[Surface]
    A2A: ClassVar[Surface]
    ADMIN: ClassVar[Surface]
    COMMAND: ClassVar[Surface]
    SYSTEM: ClassVar[Surface]
    GRANT: ClassVar[Surface]


Surface.WEB = Surface("web")
Surface.SLACK = Surface("slack")
Surface.REST = Surface("api")
Surface.A2A = Surface("a2a")
Surface.ADMIN = Surface("admin")
Surface.COMMAND = Surface("command")
Surface.SYSTEM = Surface("system")
Surface.GRANT = Surface("grant")  # a signature that was given in advance, at the desk


class PrincipalKind(StrEnum):
    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"


# How the text form of every user begins.
USERS = f"{PrincipalKind.USER}:"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who acts. Rows keep the text form: ``user:7``, ``agent:acme/helpdesk``.

    The text form of a principal never changes, and no other principal ever gets it. ``name`` is a
    label for people to read: it may change, and no rule depends on it.
    """

    kind: str
    id: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    @classmethod
    def parse(cls, text: str, name: str = "") -> Principal:
        """The principal of a text form. Any text parses; one of no known kind has no powers."""
        kind, _, key = text.partition(":")
        return cls(kind, key, name)

    @property
    def display_name(self) -> str:
        return self.name or self.id

    @property
    def is_agent(self) -> bool:
        return self.kind == PrincipalKind.AGENT

    @property
    def is_user(self) -> bool:
        return self.kind == PrincipalKind.USER

    @property
    def is_system(self) -> bool:
        return self.kind == PrincipalKind.SYSTEM

    @property
    def user_key(self) -> int | None:
        """The primary key of the account; ``None`` for all but users."""
        is_user = self.kind == PrincipalKind.USER and self.id.isdecimal()
        return int(self.id) if is_user else None

    @property
    def tenant(self) -> str:
        """The slug of an agent's tenant; empty for all but agents."""
        return self.id.partition("/")[0] if self.is_agent else ""

    @property
    def slug(self) -> str:
        """The slug of an agent within its tenant; empty for all but agents."""
        return self.id.partition("/")[2] if self.is_agent else ""


def user(key: object, name: str = "") -> Principal:
    """A person, by the primary key of the account: user names change."""
    return Principal(PrincipalKind.USER, str(key), name)


def agent(tenant: str, slug: str, name: str = "") -> Principal:
    """An agent. Two tenants may use the same slug, so the tenant is part of the text form."""
    return Principal(PrincipalKind.AGENT, f"{tenant}/{slug}", name)


def system(key: str, name: str) -> Principal:
    """A part of Assent that acts by itself, or a command on its server."""
    return Principal(PrincipalKind.SYSTEM, key, name)


POLICY = system("policy", "Policy")
SWEEPER = system("sweeper", "Time-to-live")
WORKER = system("worker", "Worker")
# Takes what agents do with their permits into the ledger; the events say which agent it was.
PERMITS = system("permits", "Permits")
