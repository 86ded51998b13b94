"""``prepare_all()``: many proposals of tools without a plan, in one statement. The hot path.

Whatever is not a new transaction at once (repeated, held, over a limit, refused) is left to
``prepare``, which knows every answer. Leaving a request to it is always safe: if it was inserted
after all, ``prepare`` answers with what was stored under its key.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError

from ledger.contracts import RequiredApprover, Tool
from ledger.errors import LedgerError
from ledger.limits import stocks
from ledger.limits.stocks import Places
from ledger.models import new_id, new_row
from ledger.seals import intents
from ledger.states import State
from ledger.tools import refuse_held
from ledger.transactions.prepare.batch_insert import New, insert_all
from ledger.transactions.prepare.drafts import columns
from ledger.transactions.prepare.planning import plain
from ledger.transactions.prepare.prepare import Answer
from ledger.transactions.prepare.proposals import Request

logger = logging.getLogger(__name__)

# A batch that lost a race is tried again: the winner is seen then, and left out.
TRIES = 3


def is_for_batch(tool: Tool[Any, Any]) -> bool:
    """True if proposals with the tool can be prepared many at a time.

    Nobody else may wait for a plan, for the queries about keys of earlier contracts, or for the
    decision where no approver is required.
    """
    contract = tool.contract
    return bool(
        not tool.has("plan")
        and contract.required_approver != RequiredApprover.NONE
        and contract.operation_key
        and not contract.operation_key_aliases
    )


def prepare_all(requests: Sequence[Request], now: datetime) -> list[Answer | None]:
    """Put the proposals before approvers, all that can be at once; ``None`` for every other.

    The tools are such that ``is_for_batch``; ``now`` is the database's clock. Raises nothing of
    the ledger; if the database fails, it is not known whether anything was inserted.
    """
    answers: list[Answer | None] = [None] * len(requests)
    with stocks.pending.places() as places:
        batch = dict(_new(requests, now, places))
        inserted = _insert(list(batch.values()))
    for number, new in batch.items():
        if new.row.id in inserted:
            answers[number] = Answer(201, new.answer, new.row.id)
    return answers


def _new(requests: Sequence[Request], now: datetime, places: Places) -> Iterator[tuple[int, New]]:
    """The new transactions, with their places. Of requests that exclude each other the first."""
    taken: set[tuple[str, ...]] = set()
    for number, request in enumerate(requests):
        names = {
            ("key", str(request.by), request.key),
            ("operation", request.tenant, request.operation_key),
        }
        if names & taken or not places.try_take(request.by, request.tenant):
            continue
        new = _drafted_or_none(request, now)
        if new is not None:
            taken |= names
            yield number, new


def _drafted_or_none(request: Request, now: datetime) -> New | None:
    """``None`` where the tool's own code fails: the others of the batch go on."""
    try:
        return _drafted(request, now)
    except LedgerError:
        return None
    except Exception as failure:
        logger.warning("a proposal of %s leaves its batch after %r", request.tool.name, failure)
        return None


def _drafted(request: Request, now: datetime) -> New:
    """Raises ``LedgerError`` for a plain summary that is unsafe to show, or a tool that is held."""
    refuse_held(request.tenant, request.tool.name, request.tool.version)
    transaction_id = new_id()
    planned = plain(request.tool, request.arguments, request.proposal.reason)
    row = new_row(columns(request, transaction_id, planned, now))
    row.state = State.PREPARED
    row.intent_digest = intents.digest_of(intents.intent_of(row))
    return New(request, row, request.render(row, None))


def _insert(batch: list[New]) -> frozenset[Any]:
    """The ids of those that were inserted; none where others were faster again and again."""
    for _ in range(TRIES):
        try:
            return frozenset(insert_all(batch)) if batch else frozenset()
        except IntegrityError as race:
            logger.info("a batch of %s lost a race: %s", len(batch), race)
    return frozenset()
