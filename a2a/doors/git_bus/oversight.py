"""Views and actions of operators: claims of others that stand still, and what is stuck."""

from __future__ import annotations

from typing import Any

from a2a.doors.git_bus import inbound, record
from a2a.doors.git_bus.changes import BusChange
from a2a.doors.git_bus.models import BusRequest, Progress, Wish
from a2a.doors.git_bus.passes import Pass
from a2a.doors.git_bus.repository import Change, Entry
from a2a.states import TaskReasons

WITHDRAWN = "It is in the inbox no more, and nobody has claimed it."
# Nobody else's, or left to an operator with a reason of its own.
OURS = {Progress.CLAIMING, Progress.TAKEN, Progress.PROBLEM}
OPEN = (Progress.LEFT, Progress.HELD, Progress.ELSEWHERE, Progress.PROBLEM)
BY_OPERATOR = "An operator has refused the request."


def note_history(bus_pass: Pass) -> None:
    """Notice when commits that were there have gone: somebody has forced a push."""
    known = bus_pass.bus.head
    if not known or bus_pass.repository.is_ancestor(known, bus_pass.head):
        return
    record.rewritten(bus_pass, known)


def follow_others(bus_pass: Pass) -> None:
    """Keep what others have claimed, and since when; forget what is gone."""
    claimed = bus_pass.claimed()
    waiting = {entry.name for entry in bus_pass.inbox()}
    known = bus_pass.known(claimed)
    for request_id, entry in claimed.items():
        if bus_pass.is_over:
            return
        row = known.get(request_id.lower()) or BusRequest(bus=bus_pass.bus, request_id=request_id)
        # What is in the inbox as well, receiving has left to an operator.
        if entry.name not in waiting and not row.is_ours and row.progress not in OURS:
            _note_claim(bus_pass, row, entry)
    rows = BusRequest.objects.filter(bus=bus_pass.bus, is_ours=False, progress__in=OPEN, task=None)
    for row in rows.select_related("bus__agent__tenant", "admission"):
        if row.request_id not in claimed and f"{row.request_id}.json" not in waiting:
            _forget(row)


def _note_claim(bus_pass: Pass, row: BusRequest, entry: Entry) -> None:
    if row.task is not None:
        record.note(row, progress=Progress.TAKEN)  # it is ours: an answer of ours was taken back
        return
    if row.progress == Progress.ELSEWHERE and row.claimed_at and row.blob == entry.object_id:
        return
    author = bus_pass.repository.author_of(bus_pass.head, entry.path)
    if author is None:
        return
    inbound.withdraw_admission(row)
    record.note(
        row,
        progress=Progress.ELSEWHERE,
        claimed_at=author.at,
        processed_by=author.name,
        blob=entry.object_id,
        problem="",
        ended_at=None,
    )


def _forget(row: BusRequest) -> None:
    inbound.withdraw_admission(row)
    record.done(row, row.problem if row.progress == Progress.PROBLEM else WITHDRAWN, blob="")


# --- what operators want ----------------------------------------------------------------------


def grant_wishes(bus_pass: Pass) -> None:
    wished = (
        BusRequest.objects.filter(bus=bus_pass.bus)
        .exclude(wish="")
        .select_related("bus__agent__tenant")
    )
    for row in wished:
        wish, by = Wish(row.wish), row.wished_by
        commit, problems = "", list[str]()
        # A task is canceled at the desk, which answers the request as well.
        if row.is_ours or not row.task_id:
            with record.isolated(row, problems.append):
                commit = _grant(bus_pass, row, wish)
        same = BusRequest.objects.filter(pk=row.pk, wish=row.wish, wished_by=by)
        same.update(wish="", wished_by="", wished_blob="")
        details = {"request_id": row.request_id, "wish": wish.value, "commit": commit}
        if problems:
            record.note_problem(row, problems[0])
            details["problem"] = problems[0]
        record.change(bus_pass.bus, BusChange.REQUEST_SETTLED, details | {"asked_by": by})


def _grant(bus_pass: Pass, row: BusRequest, wish: Wish) -> str:
    match wish:
        case Wish.RELEASE:
            return _release(bus_pass, row)
        case Wish.REFUSE:
            return _refuse(bus_pass, row)
        case Wish.RETRY:
            record.note(row, progress=Progress.LEFT, blob="", problem="")
            return ""


def _release(bus_pass: Pass, row: BusRequest) -> str:
    claimed, inbox = (
        bus_pass.folders.claimed(row.request_id),
        bus_pass.folders.request(row.request_id),
    )

    def change() -> Change | None:
        entries = bus_pass.entries([claimed, inbox])
        if claimed not in entries or inbox in entries:
            return None
        return Change(f"Released {row.request_id}", renamed={claimed: inbox}, is_signed=False)

    commit = bus_pass.publish(change)
    if commit is not None and not row.is_ours:
        columns: dict[str, Any] = {"progress": Progress.LEFT, "claimed_at": None, "blob": ""}
        record.note(row, **columns, processed_by="", problem=TaskReasons.PUT_BACK())
    return commit or ""


def _refuse(bus_pass: Pass, row: BusRequest) -> str:
    """Answer with an error, from the inbox or from among the claimed ones."""
    inbox, claimed = (
        bus_pass.folders.request(row.request_id),
        bus_pass.folders.claimed(row.request_id),
    )

    def change() -> Change | None:
        entries = bus_pass.entries([inbox, claimed])
        if (
            inbox not in entries
            or claimed in entries
            or entries[inbox].object_id != row.wished_blob
        ):
            return None
        message = f"Claimed {row.request_id} by {bus_pass.bus.participant}"
        return Change(message, renamed={inbox: claimed})

    bus_pass.publish(change)
    there = bus_pass.entry(claimed)
    if there is None or there.object_id != row.wished_blob:
        return ""  # it is another file than the operator has seen
    inbound.refuse(bus_pass, row, inbound.REFUSED, BY_OPERATOR)
    return row.answer_commit
