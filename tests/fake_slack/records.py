"""What the fake remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

APP_ID = "A0ASSENT"
APP_TOKEN = "xapp-1-A0ASSENT-fake"
SIGNING_SECRET = "the signing secret of the fake app"
DEFAULT_SCOPES = (
    "chat:write",
    "commands",
    "users:read",
    "users:read.email",
    "channels:read",
    "channels:history",
    "groups:read",
    "groups:history",
    "im:read",
    "im:write",
    "im:history",
)

Blocks = list[dict[str, Any]]


@dataclass(eq=False)
class Team:
    id: str
    name: str
    bot_token: str
    signing_secret: str
    app_token: str
    scopes: tuple[str, ...]
    enterprise_id: str
    app_id: str
    bot_user_id: str
    bot_id: str
    auth_error: str = ""  # "token_revoked", "account_inactive": the bot token is refused so

    @property
    def domain(self) -> str:
        return self.name.lower().replace(" ", "-")


@dataclass(eq=False)
class SlackUser:
    team: Team
    id: str
    name: str
    email: str
    is_bot: bool = False
    deleted: bool = False


@dataclass(eq=False)
class Channel:
    team: Team
    id: str
    name: str
    has_bot: bool
    is_archived: bool
    is_private: bool = False
    members: set[str] | None = None  # None: every user of the team
    im_user: str = ""

    def has_member(self, user_id: str) -> bool:
        if self.im_user:
            return user_id == self.im_user
        return self.members is None or user_id in self.members

    @property
    def family(self) -> str:
        """The first half of the scopes that open it: channels:read, groups:read, im:read."""
        if self.im_user:
            return "im"
        return "groups" if self.is_private else "channels"


@dataclass(eq=False)
class Message:
    team: Team
    channel: str
    ts: str
    text: str
    blocks: Blocks
    thread_ts: str = ""
    metadata: dict[str, Any] | None = None
    author: str = ""  # the id of the person who wrote it; empty: our bot
    parse: str = ""
    link_names: bool = False
    edits: list[tuple[str, Blocks]] = field(default_factory=list)
    is_deleted: bool = False

    @property
    def is_ours(self) -> bool:
        return not self.author


@dataclass(eq=False)
class Ephemeral:
    team: Team
    channel: str
    user: str
    ts: str
    text: str
    blocks: Blocks
    thread_ts: str = ""


@dataclass(eq=False)
class Modal:
    team: Team
    view_id: str
    user: str
    view: dict[str, Any]  # as Slack gives it back: with id, hash and the ids of blocks
    previous: Modal | None = None
    versions: list[dict[str, Any]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    is_closed: bool = False
    shows_trouble: bool = False

    @property
    def hash(self) -> str:
        return str(self.view["hash"])

    @property
    def root(self) -> Modal:
        return self.previous.root if self.previous else self


@dataclass(eq=False)
class Call:
    method: str
    args: dict[str, Any]
    team: Team | None
    at: float  # time.monotonic()
    answer: dict[str, Any]
    status: int  # 0: the connection was closed without an answer


@dataclass(eq=False)
class ResponseUrlUse:
    url: str
    body: dict[str, Any]
    status: int


@dataclass(eq=False)
class Trigger:
    id: str
    team: Team
    user: str
    issued_at: float
    is_used: bool = False


@dataclass(frozen=True)
class Envelope:
    """What was sent to the product, so that it can be sent again."""

    team: Team
    kind: str  # "interactive" | "slash_commands" | "events_api"
    payload: dict[str, Any]
    url: str
    body: bytes
    content_type: str


@dataclass(eq=False)
class Reaction:
    """How the product took something that a person did. Status 0: no answer at all."""

    status: int
    body: str
    json: dict[str, Any] | None
    seconds: float
    is_late: bool
    trigger_id: str = ""
    envelope: Envelope | None = field(default=None, repr=False)
