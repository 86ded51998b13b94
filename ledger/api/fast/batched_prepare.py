"""Proposals of many requests, prepared in two statements: one for their tokens, one for them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ledger.agents import Caller, callers_of
from ledger.api.rendering import render_token
from ledger.errors import LedgerError
from ledger.foundation.batches import Batcher
from ledger.principals import Surface
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Answer, Proposal, Request

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A proposal with its Idempotency-Key and the hash of its token."""

    proposal: Proposal
    key: str
    token_hash: str


def _prepare_all(proposals: list[NewProposal]) -> list[Answer | None]:
    """``None`` for every proposal that is not a new transaction at once."""
    answers: list[Answer | None] = [None] * len(proposals)
    callers = callers_of([new.token_hash for new in proposals])
    requests = {
        number: request
        for number, (new, caller) in enumerate(zip(proposals, callers, strict=True))
        if caller is not None and (request := _request(new, caller)) is not None
    }
    now = next((caller.looked_up_at for caller in callers if caller is not None), None)
    if now is not None:
        prepared = coordinator.prepare_all(list(requests.values()), now)
        for number, answer in zip(requests, prepared, strict=True):
            answers[number] = answer
    return answers


def _request(new: NewProposal, caller: Caller) -> Request | None:
    """``None`` if the proposal is refused."""
    tool = new.proposal.tool
    if not caller.may_use(tool) or caller.is_stopped(tool):
        return None
    try:
        return coordinator.checked(
            new.proposal,
            by=caller.principal,
            tenant=caller.tenant,
            key=new.key,
            via=Surface.REST,
            render=render_token,
            lists=caller.lists,
            rule_set=caller.rule_set,
        )
    except LedgerError:
        return None
    except Exception as failure:  # of the tool's code: the others of the batch go on
        logger.warning("a proposal of %s goes to its view after %r", new.proposal.tool, failure)
        return None


prepares: Batcher[NewProposal, Answer | None] = Batcher(_prepare_all)
