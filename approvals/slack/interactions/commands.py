"""What Slack wants done, as a job can carry it: small, JSON, without a secret."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from approvals.slack.rendering.signed_values import Press
from ledger.models import new_id


@dataclass(frozen=True, slots=True)
class Order:
    """One thing that somebody did in Slack.

    ``kind`` is press (a decision or an answer), or what somebody is to be shown: form, home, tell
    or rewrite. ``apps`` are the fingerprints of the apps
    in whose name Slack signed it. ``user`` and ``home_team`` say who: a guest of a shared channel
    has his home elsewhere.
    """

    kind: str
    apps: list[str]
    team: str
    user: str
    home_team: str = ""
    channel: str = ""
    ts: str = ""
    press: Press | None = None
    view: str = ""
    text: str = ""
    page: str = ""
    tries: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(new_id()))

    @property
    def label(self) -> str:
        """What may be read of it where it waits."""
        return f"{self.kind} {self.id}"

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Order:
        said = json.loads(text)
        press = Press(**said.pop("press")) if said.get("press") else None
        return cls(**{**said, "press": press})
