"""Makes checkpoints, publishes them and has witnesses cosign them, beside the sweeper.

Nothing here delays the sweeper: checkpoints have a thread of their own, and so has each witness.
Failures are retried.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from datetime import timedelta

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from ledger.events import ChangeKind, chain_of, record_change
from ledger.foundation.backoff import Backoff
from ledger.foundation.lanes import Lane
from ledger.models import Checkpoint, Event
from ledger.principals import SWEEPER, Surface
from ledger.proof.log import checkpoints, publishing, witnesses
from ledger.proof.log.witnesses import Witness, WitnessDisagrees, WitnessRefused

logger = logging.getLogger(__name__)

SUBJECT = "log"  # of the events that say that it stopped
LATE_ROUNDS = 2  # as on the operations page
BACKOFF = Backoff(first=timedelta(seconds=10), longest=timedelta(minutes=10))
MOST_WITNESSES = 8  # asked at the same time


def _tell_if_stopped() -> None:
    """Record, once, that events have been under no checkpoint for too long; owners are told."""
    try:
        since = checkpoints.uncovered_since()
        late = timedelta(seconds=settings.CHECKPOINT_EVERY_S) * LATE_ROUNDS
        if not settings.AUDIT_KEY or since is None or since > timezone.now() - late:
            return
        last = Checkpoint.objects.aggregate(at=Max("at"))["at"] or since  # it went on until then
        told = Event.objects.filter(subject=chain_of(SUBJECT))
        if not told.filter(at__gt=max(since, last)).exists():
            details = {"since": since.isoformat()}
            record_change(
                SUBJECT,
                ChangeKind.LOG_STOPPED,
                tenant="",
                by=SWEEPER,
                via=Surface.SYSTEM,
                details=details,
            )
    except Exception:
        logger.exception("could not tell that the log stopped; it is tried again")


class Keeper:
    """Publishes checkpoints and collects cosignatures; keeps its state between two runs."""

    def __init__(self) -> None:
        self._checkpoints = Lane("log", 1)
        self._witnesses = Lane("witness", MOST_WITNESSES, daemon=True)
        self._making: Future[bool] | None = None
        self._due = 0.0
        self._asking: dict[str, Future[None]] = {}
        self._failures: dict[str, int] = {}
        self._ask_again: dict[str, float] = {}

    def round(self) -> None:
        """Start what is due, and return at once."""
        if self._making is not None and not self._making.done():
            return
        if self._making is not None and self._making.result():
            self._due = 0.0  # there were more events than one checkpoint takes
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + settings.CHECKPOINT_EVERY_S
            self._making = self._checkpoints.start("", self._make)

    def finish(self) -> None:
        """Wait for the checkpoint in hand; a witness may take long."""
        if self._making is not None:
            self._making.result()

    def _make(self) -> bool:
        """Make one checkpoint; whether the next one is due at once."""
        try:
            point = checkpoints.make(publishing.published())
            if point is not None:
                publishing.announce(point)
            publishing.catch_up()
            self._ask_witnesses()
            if point is not None:
                return checkpoints.is_behind(point)
        except checkpoints.Contradiction as contradiction:
            logger.critical("No checkpoint is signed: %s Run verify_ledger.", contradiction)
        except Exception:
            logger.exception("a checkpoint failed; the next one is tried as usual")
        _tell_if_stopped()
        return False

    def _ask_witnesses(self) -> None:
        for witness in witnesses.configured():
            name = witness.key.name
            asking = self._asking.get(name)
            is_free = asking is None or asking.done()
            if is_free and time.monotonic() >= self._ask_again.get(name, 0.0):
                self._asking[name] = self._witnesses.start(name, self._ask, witness)

    def _ask(self, witness: Witness) -> None:
        name = witness.key.name
        try:
            witnesses.ask(witness)
            self._failures[name] = 0
            return
        except WitnessDisagrees as refusal:
            logger.critical("Witness %s disagrees: %s Run verify_ledger.", name, refusal)
        except WitnessRefused as refusal:
            logger.warning("Witness %s: %s", name, refusal)
        except Exception:
            logger.exception("asking witness %s failed", name)
        self._failures[name] = self._failures.get(name, 0) + 1
        wait = BACKOFF.wait(self._failures[name])
        self._ask_again[name] = time.monotonic() + wait.total_seconds()
