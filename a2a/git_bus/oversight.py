"""What operators are shown and may do: claims of others that stand still, and what is stuck."""

from __future__ import annotations

from typing import Any

from a2a.git_bus import admission, answering, record
from a2a.git_bus.git import Change, Entry
from a2a.git_bus.passes import Pass
from a2a.models import BusRequest, Progress, Wish
from ledger.events.account_changes import ChangeKind

WITHDRAWN = "It is in the inbox no more, and nobody has claimed it."
# Nobody else's, or left to an operator with a reason of its own.
OURS = {Progress.CLAIMING, Progress.TAKEN, Progress.PROBLEM}
BY_OPERATOR = "An operator has refused the request."


def note_history(here: Pass) -> None:
    """Notice when commits that were there have gone: somebody has forced a push."""
    known = here.bus.head
    if not known or here.repository.is_ancestor(known, here.head):
        return
    record.rewritten(here, known)


def follow_others(here: Pass) -> None:
    """Keep what others have claimed, and since when; forget what is gone."""
    claimed = here.claimed()
    rows = BusRequest.objects.filter(bus=here.bus, is_ours=False).exclude(progress=Progress.DONE)
    known = {row.request_id: row for row in rows.select_related("bus__agent", "admission")}
    ours = set(
        BusRequest.objects.filter(
            bus=here.bus, is_ours=True, request_id__in=list(claimed)
        ).values_list("request_id", flat=True)
    )
    waiting = {entry.name for entry in here.inbox()}
    for request_id, entry in claimed.items():
        if entry.name in waiting:
            continue  # receiving has left it to an operator
        row = known.get(request_id) or BusRequest(bus=here.bus, request_id=request_id)
        if request_id not in ours and row.progress not in OURS:
            _note_claim(here, row, entry)
    for row in known.values():
        if row.request_id not in claimed and f"{row.request_id}.json" not in waiting:
            _forget(row)


def _note_claim(here: Pass, row: BusRequest, entry: Entry) -> None:
    if row.progress == Progress.ELSEWHERE and row.claimed_at is not None:
        return
    author = here.repository.author_of(here.head, entry.path)
    if author is None:
        return
    admission.withdraw(row)
    record.note(
        row,
        progress=Progress.ELSEWHERE,
        claimed_at=author.at,
        processed_by=author.name,
        blob=entry.object_id,
        problem="",
    )


def _forget(row: BusRequest) -> None:
    is_open = {Progress.LEFT, Progress.HELD, Progress.ELSEWHERE, Progress.PROBLEM}
    if row.progress in is_open and row.task is None:
        admission.withdraw(row)
        record.done(row, row.problem if row.progress == Progress.PROBLEM else WITHDRAWN)


# --- what operators want ----------------------------------------------------------------------


def grant_wishes(here: Pass) -> None:
    wished = BusRequest.objects.filter(bus=here.bus).exclude(wish="").select_related("bus__agent")
    for row in wished:
        wish, by = Wish(row.wish), row.wished_by
        # A task is canceled at the desk, which answers the request as well.
        commit = "" if row.task_id and not row.is_ours else _grant(here, row, wish)
        record.note(row, wish="", wished_by="")
        record.change(
            here.bus,
            ChangeKind.BUS_REQUEST_SETTLED,
            {"request_id": row.request_id, "wish": wish.value, "commit": commit, "asked_by": by},
        )


def _grant(here: Pass, row: BusRequest, wish: Wish) -> str:
    match wish:
        case Wish.RELEASE:
            return _release(here, row)
        case Wish.REFUSE:
            return _refuse(here, row)
        case Wish.RETRY:
            record.note(row, progress=Progress.LEFT, blob="", problem="")
            return ""


def _release(here: Pass, row: BusRequest) -> str:
    claimed, inbox = here.folders.claimed(row.request_id), here.folders.request(row.request_id)

    def change() -> Change | None:
        found = here.entries([claimed, inbox])
        if claimed not in found or inbox in found:
            return None
        return Change(f"Released {row.request_id}", renamed={claimed: inbox})

    commit = here.publish(change)
    if commit is not None and not row.is_ours:
        columns: dict[str, Any] = {"progress": Progress.LEFT, "claimed_at": None, "blob": ""}
        record.note(row, **columns, processed_by="", problem="Put back by an operator.")
    return commit or ""


def _refuse(here: Pass, row: BusRequest) -> str:
    """Answer with an error, from the inbox or from among the claimed ones."""
    inbox, claimed = here.folders.request(row.request_id), here.folders.claimed(row.request_id)

    def change() -> Change | None:
        found = here.entries([inbox, claimed])
        if inbox not in found or claimed in found:
            return None
        message = f"Claimed {row.request_id} by {here.bus.participant}"
        return Change(message, renamed={inbox: claimed})

    here.publish(change)
    answering.refuse(here, row, answering.REFUSED, BY_OPERATOR)
    return row.answer_commit
