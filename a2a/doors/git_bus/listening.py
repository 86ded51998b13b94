"""The process of the buses: passes over each that is due, one bus after the other."""

from __future__ import annotations

import logging
from pathlib import Path

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Now

from a2a.doors.git_bus import inbound, outbound, oversight, participant_file
from a2a.doors.git_bus.models import GitBus
from a2a.doors.git_bus.passes import HOLD, HoldLost, Pass
from a2a.doors.git_bus.repository import Entry, GitFailed, PushDeclined, Remote, Repository, files
from a2a.doors.git_bus.repository.files import BusUnusable
from ledger.foundation.characters import without_nul
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.foundation.postgres import update_returning
from ledger.foundation.postgres.sessions import CONNECTION_LOST

logger = logging.getLogger(__name__)

MOST_CLAIMS = 20  # in one turn, then the next bus has its turn
MOST_UNUSABLE = 20  # names that operators are shown
DUE = Q(is_active=True, look_at__lte=Now()) & (Q(busy_until=None) | Q(busy_until__lte=Now()))


def serve(pk: int) -> None:
    """A turn for one bus, unless another process has it."""
    free = GitBus.objects.filter(DUE, pk=pk)
    bus = update_returning(free, busy_until=Now() + HOLD, hold=F("hold") + 1)
    if bus is None:
        return
    error = ""
    try:
        _turn(bus)
    except (GitFailed, BusUnusable, HoldLost, SecretUnreadable) as failure:
        error = without_nul(str(failure))
        logger.warning("%s: %s", bus, error)
    except CONNECTION_LOST:
        raise  # of our own database: the bus is free again once its hold has run out
    except Exception:
        error = "The turn stopped at an error within Assent, which is in the log of this process."
        logger.exception("%s", bus)
    held = GitBus.objects.filter(pk=pk, hold=bus.hold)
    held.update(
        busy_until=None,
        look_at=Now() + bus.poll_every,
        fetched_at=F("fetched_at") if error else Now(),
        head=bus.head,
        unusable=bus.unusable,
        error=error,
        note=bus.note,
    )


def _turn(bus: GitBus) -> None:
    with Repository(folder_of(bus), remote_of(bus)) as repository:
        bus_pass = Pass.begin(bus, repository)
        try:
            _serve(bus_pass)
        finally:
            bus.head = bus_pass.head
            _tidy(bus, repository)


def _tidy(bus: GitBus, repository: Repository) -> None:
    try:
        repository.tidy()
    except GitFailed as failure:
        logger.warning("%s: the copy was not tidied: %s", bus, failure)


def _serve(bus_pass: Pass) -> None:
    oversight.note_history(bus_pass)
    declined = _publish_participant_file(bus_pass)
    oversight.grant_wishes(bus_pass)
    inbound.recover(bus_pass)
    inbound.answer_all(bus_pass)
    outbound.collect_all(bus_pass)
    outbound.withdraw_all(bus_pass)
    outbound.send_all(bus_pass)
    inbound.take_all(bus_pass, MOST_CLAIMS)
    inbound.answer_all(bus_pass)
    oversight.follow_others(bus_pass)
    bus_pass.bus.unusable = bus_pass.unusable[:MOST_UNUSABLE]
    if declined is not None:
        raise declined


def _publish_participant_file(bus_pass: Pass) -> PushDeclined | None:
    """A host that declines it may take everything else; operators are told after the turn."""
    try:
        participant_file.publish(bus_pass)
    except PushDeclined as declined:
        return declined
    return None


def folder_of(bus: GitBus) -> Path:
    return Path(settings.GIT_BUS_FOLDER) / f"{bus.pk}.git"


def remote_of(bus: GitBus) -> Remote:
    return Remote(
        bus.url,
        bus.branch,
        key=str(bus.deploy_key),
        signing_key=str(bus.signing_key),
        known_hosts=bus.known_hosts,
        token=str(bus.password),
        allow_local=settings.GIT_BUS_LOCAL,
    )


def state_of(bus: GitBus) -> list[str]:
    """The lines of ``manage.py bus check``: whether the repository is a bus, and who is there.

    Raises ``GitFailed, BusUnusable``.
    """
    with Repository(folder_of(bus), remote_of(bus)) as repository:
        bus_pass = Pass.begin(bus, repository)
        lines = [f"{bus.url}, branch {bus.branch}, at commit {bus_pass.head[:12]}"]
        lines += [bus.note] if bus.note else []
        for name in ("inbox", "processing", "archive"):
            path = getattr(bus_pass.folders, name)
            lines.append(f"{path}/: {len(_files_in(bus_pass, path))} requests")
        for entry in _files_in(bus_pass, bus_pass.folders.participants):
            participant = files.read_participant(entry.name, repository.read(entry))
            if participant is not None:
                methods = ", ".join(participant.methods) or "names no methods"
                lines.append(f"participant {participant.agent_id}: {methods}")
    return lines


def _files_in(bus_pass: Pass, path: str) -> list[Entry]:
    entries = bus_pass.repository.folder(bus_pass.head, path)
    return [entry for entry in entries if entry.name.endswith(".json") and files.is_small(entry)]
