"""Witnesses cosign our checkpoints, or refuse: C2SP tlog-witness, as its client.

A witness signs only what is consistent with all that it saw of us before. It may be down, slow or
hostile: it has a deadline, its answer a largest size, and what it signed is verified.
"""

from __future__ import annotations

import base64
import logging
import re
import time
from dataclasses import dataclass

import httpx
from django.conf import settings
from django.db import IntegrityError
from django.db.transaction import atomic

from ledger.foundation import http_out
from ledger.foundation.crypto import signed_notes
from ledger.foundation.crypto.merkle import ProofRefused
from ledger.foundation.crypto.signed_notes import NoteRefused, Signature, VerifierKey
from ledger.models.events import Checkpoint, Cosignature
from ledger.proof.log import checkpoints, publishing

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0  # for everything: the name, connecting, sending, and the answer
LARGEST_ANSWER = 16 * 1024  # bytes
FASTEST_CLOCK_S = 300  # seconds that the clock of a witness may be ahead of ours
_SIZE = re.compile(r"(0|[1-9][0-9]{0,18})\n")


class WitnessRefused(Exception):
    """No cosignature came back. Nothing was changed; it is tried again later."""


class WitnessDisagrees(WitnessRefused):
    """The witness saw a history that ours does not continue. An operator must investigate."""


@dataclass(frozen=True, slots=True)
class Witness:
    """The URL of a witness and its verifier key."""

    url: str
    key: VerifierKey

    @classmethod
    def parse(cls, text: str) -> Witness:
        """``<address> <verifier key>``. Raises ``NoteRefused``."""
        url, _, key = text.strip().partition(" ")
        if not url.startswith(("http://", "https://")):
            raise NoteRefused(f"{text[:200]!r} is no witness: say '<address> <verifier key>'.")
        return cls(url.rstrip("/"), VerifierKey.parse(key))


def configured() -> list[Witness]:
    return [Witness.parse(entry) for entry in settings.WITNESSES]


def is_due(witness: Witness) -> bool:
    """True if the newest checkpoint lacks this witness's cosignature."""
    point = checkpoints.latest()
    if point is None:
        return False
    return not point.cosignatures.filter(witness=witness.key.name).exists()


def ask(witness: Witness) -> Cosignature | None:
    """Have the newest checkpoint cosigned; ``None`` when it is already.

    Raises ``WitnessRefused``. Never inside a database transaction: it waits for the outside.
    """
    point = checkpoints.latest()
    if point is None or not is_due(witness):
        return None
    answer = _submit(witness, point, _size_seen_by(witness))
    if answer.status_code == 409:
        answer = _submit(witness, point, _size_in(answer, point))
    if answer.status_code != 200:
        raise _refusal(answer)
    return _keep(witness, point, _cosignature_in(answer, witness, point))


def _submit(witness: Witness, point: Checkpoint, old: int) -> httpx.Response:
    try:
        path = checkpoints.consistency(old, point.size)
    except ProofRefused as refusal:
        raise WitnessDisagrees(f"The witness saw {old} events of this log. {refusal}") from refusal
    lines = [f"old {old}", *(base64.b64encode(node).decode() for node in path)]
    body = "".join(f"{line}\n" for line in lines) + f"\n{point.note}"
    try:
        return http_out.post(
            f"{witness.url}/add-checkpoint",
            body.encode(),
            {"Content-Type": "text/plain"},
            timeout_s=TIMEOUT_S,
            largest_answer=LARGEST_ANSWER,
            any_network=True,  # the operator named it in the environment
        )
    except TimeoutError:
        raise WitnessRefused(f"It did not answer within {TIMEOUT_S:g} s.") from None
    except (httpx.HTTPError, http_out.AddressRefused, OSError) as failure:
        raise WitnessRefused(f"{type(failure).__name__}: {failure}") from failure


def _size_seen_by(witness: Witness) -> int:
    """The size of the last checkpoint that it cosigned, as far as we know."""
    known = Cosignature.objects.filter(witness=witness.key.name).order_by("-checkpoint__size")
    return known.values_list("checkpoint__size", flat=True).first() or 0


def _size_in(answer: httpx.Response, point: Checkpoint) -> int:
    """The size that the witness saw last. Raises ``WitnessDisagrees`` if ours is smaller."""
    match = _SIZE.fullmatch(_text(answer))
    if match is None:
        raise WitnessDisagrees("The witness holds another tree of the same size.")
    size = int(match[1])
    if size > point.size:
        raise WitnessDisagrees(
            f"The witness saw {size} events of this log, which has {point.size}: it was set back."
        )
    return size


def _refusal(answer: httpx.Response) -> WitnessRefused:
    answered = f"It answered {answer.status_code}: {_text(answer).strip()[:200]!r}."
    if answer.status_code == 404:
        return WitnessRefused(f"{answered} It does not know this log: register its key there.")
    if answer.status_code == 403:
        return WitnessRefused(f"{answered} It does not trust the key that signed.")
    if answer.status_code in {409, 422}:
        return WitnessDisagrees(f"{answered} Its history of this log is not ours.")
    return WitnessRefused(answered)


def _cosignature_in(answer: httpx.Response, witness: Witness, point: Checkpoint) -> Signature:
    """The signature of this checkpoint by the key of the witness. Raises ``WitnessRefused``."""
    text = checkpoints.signed_note(point).text
    try:
        lines = signed_notes.signatures_of(_text(answer))
    except NoteRefused as refusal:
        raise WitnessRefused(str(refusal)) from refusal
    for line in filter(witness.key.owns, lines):
        if not witness.key.verifies(line, text):
            raise WitnessRefused("Its signature is not its key's, or is of something else.")
        if line.cosigned_at > time.time() + FASTEST_CLOCK_S:
            raise WitnessRefused("It signed in the future.")
        return line
    raise WitnessRefused("It answered without a signature of its key.")


def _keep(witness: Witness, point: Checkpoint, line: Signature) -> Cosignature | None:
    try:
        with atomic():
            row = point.cosignatures.create(
                witness=witness.key.name, line=str(line).removesuffix("\n")
            )
    except IntegrityError:
        return None  # another sweeper stored it at the same time
    publishing.append(checkpoints.cosigned_note(point))
    return row


def _text(answer: httpx.Response) -> str:
    return answer.content.decode("utf-8", "replace")
