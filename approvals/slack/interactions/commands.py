"""Commands that people give in Slack, and replies to them, as JSON without secrets for a row."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar

from approvals.slack.rendering import ButtonValue
from ledger.models import new_id


@dataclass(frozen=True, slots=True)
class Source:
    """The person who acted in Slack, and the place.

    ``apps`` are the fingerprints of the apps for which Slack signed the request. ``home_team`` is
    the workspace that the user belongs to: another than ``team`` for a guest in a shared channel.
    ``channel`` and ``ts`` name the message whose button was pressed; empty if there was none.
    """

    apps: list[str]
    team: str
    user: str
    home_team: str = ""
    channel: str = ""
    ts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing to do, by the job of ``queue``; each kind is a class below."""

    kind: ClassVar[str]
    queue: ClassVar[str]
    source: Source
    id: str = field(default_factory=lambda: str(new_id()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Click(Command):
    """Decide or answer, as chosen by a button or its modal.

    ``typed`` is the reason or the confirmation, ``inputs`` what was filled into a form, in Slack's
    format. Equal ``id``: the same click, sent again.
    """

    kind: ClassVar[str] = "click"
    queue: ClassVar[str] = "react"
    button: ButtonValue
    typed: str = ""
    inputs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Command):
    """Something to show in Slack."""

    queue: ClassVar[str] = "respond"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowForm(Reply):
    """Put a form into the modal that was opened as ``view``: of a question, or to stop."""

    kind: ClassVar[str] = "form"
    button: ButtonValue
    view: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowHome(Reply):
    """Fill the Home tab."""

    kind: ClassVar[str] = "home"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Reply):
    """Tell the person, and nobody else, ``text``; with a link to ``page`` of the desk."""

    kind: ClassVar[str] = "tell"
    text: str
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMessage(Reply):
    """Make the message that was clicked show the present state; ``message`` is its primary key."""

    kind: ClassVar[str] = "update"
    message: int


C = TypeVar("C", bound=Command)
KINDS: dict[str, type[Command]] = {
    kind.kind: kind for kind in (Click, ShowForm, ShowHome, Tell, UpdateMessage)
}


def to_text(command: Command) -> str:
    return json.dumps({"kind": command.kind, **asdict(command)})


def read(text: str, expected: type[C]) -> C:
    """Raises ``ValueError`` for what this version of Assent cannot read."""
    try:
        fields = json.loads(text)
        kind = KINDS[fields.pop("kind")]
        if not issubclass(kind, expected):
            raise ValueError(f"{kind} is not a {expected}")
        fields["source"] = Source(**fields["source"])
        if "button" in fields:
            fields["button"] = ButtonValue(**fields["button"])
        return kind(**fields)
    except (AttributeError, KeyError, TypeError, ValueError) as failure:
        raise ValueError(f"This is no command of this version: {failure!r}") from None
