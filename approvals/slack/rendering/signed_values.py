"""Values of buttons and modals, signed by Assent, so that nobody else can make one.

Slack hands the value of a button back when it is pressed, and that of a modal when it is
submitted. Each is good for one verb, one intent, one message and one workspace.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from django.core import signing

NO_CHOICE = -1
WITH_OPTIONS = 0  # of a button that rejects: its modal offers reasons
BY_RULES = 1  # of a button that approves: what is typed is asked for by rules alone


class InvalidValue(Exception):
    """The value was not made by this Assent, or with a key that is not in use any more."""


@dataclass(frozen=True, slots=True)
class ButtonValue:
    """The effect of one button, and its subject.

    ``verb`` is approve, reject, answer (by a form) or choose. ``subject`` is the id of the
    transaction or question, ``digest`` that of the intent or question as shown, ``message`` the
    primary key of the ``SlackMessage``. ``about`` and ``word`` let a modal be opened without a
    look at the database: a line about the subject, and the word that has to be typed.
    """

    verb: str
    subject: str
    digest: str
    team: str
    message: int
    about: str = ""
    word: str = ""
    choice: int = NO_CHOICE

    def signed(self) -> str:
        return _signer("button").sign_object(asdict(self), serializer=_CompactJson)


@dataclass(frozen=True, slots=True)
class ModalValue:
    """The data that a modal carries: the button that opened it, and that button's Slack message."""

    button: ButtonValue
    channel: str
    ts: str

    def signed(self) -> str:
        fields = [asdict(self.button), self.channel, self.ts]
        return _signer("modal").sign_object(fields, serializer=_CompactJson)


def read_button(text: object) -> ButtonValue:
    """Raises ``InvalidValue``."""
    try:
        fields: dict[str, Any] = _signer("button").unsign_object(str(text), serializer=_CompactJson)
        return ButtonValue(**fields)
    except (signing.BadSignature, TypeError, ValueError):
        raise InvalidValue() from None


def read_modal(text: object) -> ModalValue:
    """Raises ``InvalidValue``."""
    try:
        button, channel, ts = _signer("modal").unsign_object(str(text), serializer=_CompactJson)
        return ModalValue(ButtonValue(**button), str(channel), str(ts))
    except (signing.BadSignature, TypeError, ValueError):
        raise InvalidValue() from None


class _CompactJson:
    """JSON as UTF-8: Slack takes 2,000 characters, and \\u1234 for each would be too many."""

    def dumps(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


def _signer(purpose: str) -> signing.Signer:
    """Without a timestamp: equal buttons have equal values, so that a message whose content has
    not changed is not sent again. Whether a button still counts is decided by the row."""
    return signing.Signer(salt=f"approvals.slack.{purpose}")
