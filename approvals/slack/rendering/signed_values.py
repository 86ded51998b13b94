"""What a button carries: signed by us, for one verb, one intent, one copy in one workspace."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from django.core import signing


class Compact:
    """JSON as UTF-8: Slack takes 2,000 characters, and \\u1234 for each would be too many."""

    def dumps(self, said: Any) -> bytes:
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class NotOurs(Exception):
    """The value was not made by this Assent, or with a key that is not in use any more."""


@dataclass(frozen=True, slots=True)
class Press:
    """One press of one button.

    ``verb`` is approve, reject, answer (by a form) or choose. ``digest`` is that of the intent, or
    of the question, as shown. ``about`` and ``word`` let a modal be opened before anything is
    looked up: what it is about, and what has to be typed.
    """

    verb: str
    subject: str
    digest: str
    team: str
    copy: int
    about: str = ""
    word: str = ""
    choice: int = -1

    def signed(self) -> str:
        return _signer("button").sign_object(asdict(self), serializer=Compact)


def read(value: object) -> Press:
    """Raises ``NotOurs``."""
    try:
        said: dict[str, Any] = _signer("button").unsign_object(str(value), serializer=Compact)
        return Press(**said)
    except (signing.BadSignature, TypeError, ValueError):
        raise NotOurs() from None


def sealed(press: Press, channel: str, ts: str) -> str:
    """For a modal's ``private_metadata``: the press that opened it, and where."""
    return _signer("modal").sign_object([asdict(press), channel, ts], serializer=Compact)


def unsealed(value: object) -> tuple[Press, str, str]:
    """Raises ``NotOurs``."""
    try:
        said, channel, ts = _signer("modal").unsign_object(str(value), serializer=Compact)
        return Press(**said), str(channel), str(ts)
    except (signing.BadSignature, TypeError, ValueError):
        raise NotOurs() from None


def _signer(what: str) -> signing.Signer:
    """Without a time: the same button is the same value, so that a message which shows nothing new
    is not sent again. When it lapses, the row that it names says."""
    return signing.Signer(salt=f"approvals.slack.{what}")
