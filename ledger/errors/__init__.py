"""Everything that the ledger refuses, as one tree.

    LedgerError
    ├── NotPossible 409          the transaction is in no state that the move starts from
    │   ├── AlreadyDecided       somebody else decided first
    │   ├── DigestMismatch       what was on the screen is not what is stored
    │   ├── Expired              the time to live is over
    │   ├── OperationKeyConflict another transaction holds the key, with another input
    │   ├── OperationTaken       another agent's transaction holds the key
    │   ├── OperationHeld        a late receipt of the operation waits for an operator
    │   ├── Paused               somebody has stopped the agent, the tool, the tenant or everything
    │   ├── EvidenceChanged      what the approver sees is not what was sealed
    │   ├── PermitEnded          a newer permit was fetched, its time is over, or it was withdrawn
    │   └── PermitRedeemed       a permit is redeemed once
    ├── NotAllowed 403           the principal lacks a role, a scope or independence
    │   └── OwnTransaction       nobody may decide on a transaction that they proposed
    ├── NotFound 404
    ├── UnknownTool 404
    ├── InvalidRequest 422       the request can never work as it is
    │   ├── InvalidArguments
    │   ├── UnsafeText
    │   ├── SchemaUnusable   a JSON Schema is invalid or refers to other documents
    │   ├── PermitInvalid    what was presented is no permit of ours
    │   ├── PlanRefused
    │   │   └── DeniedByRule the rules of the tenant deny it
    │   └── IdempotencyKeyReused
    ├── IdempotencyKeyMissing 400
    ├── LimitReached 429         the agent, its tenant, token or address has too much of something
    ├── InProgress 409           the first request with this key is still running
    ├── CanceledBefore 409       the cancel of the request arrived before it
    ├── PlanFailed 502           the tool's plan failed; nothing was prepared
    │   └── PlanTimedOut 504     it took longer than the contract allows
    ├── PlansBusy 503            too many tools plan at this moment
    └── PermitsOff 503           there is no key to sign permits with

``code`` is stable and is the ``type`` of the problem+json; the text is for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.errors.sentences import (
    BY_CODE as BY_CODE,
    SOURCE as SOURCE,
    Sentence as Sentence,
    StandardReason as StandardReason,
    cut as cut,
    kept as kept,
    source_of as source_of,
    with_sources as with_sources,
)


class LedgerError(Exception):
    """A request was refused. ``hint`` says what to do next; ``extra`` goes into the response."""

    code = "refused"
    status = 400
    title: str = Sentence("Refused")
    hint: str = ""

    def __init__(self, detail: str = "", *, hint: str = "", **extra: Any) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.hint = hint or self.hint
        self.extra = extra


class NotPossible(LedgerError):
    """The move was not possible. ``snapshot`` is the ``Transaction`` as it is now, or ``None``.

    It is untyped because the models import this module.
    """

    code = "not_possible"
    status = 409
    title = Sentence("Not possible in the transaction's present state")
    hint = Sentence("Read the transaction; nothing was changed by this request.")

    def __init__(
        self, detail: str = "", *, snapshot: Any = None, hint: str = "", **extra: Any
    ) -> None:
        super().__init__(detail, hint=hint, **extra)
        self.snapshot = snapshot


class AlreadyDecided(NotPossible):
    code = "already_decided"
    title = Sentence("Already decided")


class DigestMismatch(NotPossible):
    code = "digest_mismatch"
    title = Sentence("The transaction is not the one that was on the screen")
    hint = Sentence(
        "Nothing was decided. Read the transaction and decide on its present intent_digest."
    )


class Revised(NotPossible):
    code = "revised"
    title = Sentence("Somebody has changed it meanwhile")
    hint = Sentence("Nothing was decided. Look at what is different, and decide on that.")


class Expired(NotPossible):
    code = "expired"
    title = Sentence("The time to live is over")
    hint = Sentence("Nothing was carried out. Propose the transaction again if it is still wanted.")


class OperationKeyConflict(NotPossible):
    code = "operation_key_conflict"
    title = Sentence("Another transaction has the same operation with a different input")
    hint = Sentence(
        "Nothing was prepared. Use the transaction in duplicate_of, or propose again once it has "
        "ended without effect."
    )


class OperationTaken(NotPossible):
    code = "operation_taken"
    title = Sentence("Another agent has proposed this operation")
    hint = Sentence("Nothing was prepared. Do not repeat it: the other agent's transaction stands.")


class OperationHeld(NotPossible):
    code = "operation_held"
    title = Sentence("The operation may have been carried out already; an operator has to check")
    hint = Sentence(
        "Nothing was prepared. Ask an operator to settle the late receipt, then propose again."
    )


class Paused(NotPossible):
    """``retry_after_s`` is until the brake lapses, where it has an end."""

    code = "paused"
    title = Sentence("Stopped")
    hint = Sentence(
        "Nothing was done. Repeat the same request, with the same key, after the seconds in "
        "Retry-After; people let it go on, not agents."
    )

    def __init__(self, detail: str = "", *, retry_after_s: int = 60, **extra: Any) -> None:
        super().__init__(detail, **extra)
        self.retry_after_s = retry_after_s


class EvidenceChanged(NotPossible):
    code = "evidence_changed"
    title = Sentence("The evidence is not what was proposed")
    hint = Sentence("Nothing was decided. Do not approve it; tell an operator, and reject it.")


class PermitEnded(NotPossible):
    code = "permit_ended"
    title = Sentence("The permit does not count any more")
    hint = Sentence(
        "Nothing was changed, and nobody may act on it. While the transaction is approved its "
        "agent may fetch a new permit."
    )


class PermitRedeemed(NotPossible):
    code = "permit_redeemed"
    title = Sentence("The permit was redeemed before")
    hint = Sentence(
        "Do not act: whoever redeemed it acts. Read the transaction to learn what came of it."
    )


class NotAllowed(LedgerError):
    code = "not_allowed"
    status = 403
    title = Sentence("Not allowed")
    hint = Sentence("Ask an operator of your tenant for the role or scope that the detail names.")


class OwnTransaction(NotAllowed):
    code = "own_transaction"
    title = Sentence("Nobody may decide on a transaction that they proposed")
    hint = Sentence("Nothing was decided. Another manager has to decide.")


class NotFound(LedgerError):
    code = "not_found"
    status = 404
    title = Sentence("There is no such transaction")
    hint = Sentence("Check the id, and that the token belongs to the tenant of the transaction.")


class UnknownTool(LedgerError):
    code = "unknown_tool"
    status = 404
    title = Sentence("There is no such tool")
    hint = Sentence(
        "GET /api/v1/tools lists what this agent may use. An operator allows more on the desk: "
        "the tool at the tenant and the agent, the scope propose or propose:<tool> at the token."
    )


class InvalidRequest(LedgerError):
    code = "invalid_request"
    status = 422
    title = Sentence("The request is not valid")
    hint = Sentence("Correct the request. Nothing was prepared.")


class InvalidArguments(InvalidRequest):
    code = "invalid_arguments"
    title = Sentence("The arguments do not fit the tool")
    hint = Sentence("Correct the fields named in errors. Nothing was prepared.")


class UnsafeText(InvalidRequest):
    code = "unsafe_text"
    title = Sentence("The text contains characters that could mislead a reader")
    hint = Sentence("Remove control and bidirectional override characters. Nothing was prepared.")


class SchemaUnusable(InvalidRequest):
    code = "schema_unusable"
    title = Sentence("The JSON Schema cannot be used")
    hint = Sentence("Send a JSON Schema (2020-12) without references to other documents.")


class PermitInvalid(InvalidRequest):
    code = "permit_invalid"
    title = Sentence("This is no permit")
    hint = Sentence("Do not act on it. Send the permit as its agent was given it.")


class PlanRefused(InvalidRequest):
    code = "plan_refused"
    title = Sentence("The tool refused the request")
    hint = Sentence(
        "Nothing is held and nothing was changed. Correct the arguments before trying again."
    )


class DeniedByRule(PlanRefused):
    code = "denied_by_rule"
    title = Sentence("The rules of this tenant deny it")
    hint = Sentence("Nothing is held and nothing was changed. People change the rules, not agents.")

    def __init__(self, rule_set: int, numbers: Sequence[int], **extra: Any) -> None:
        super().__init__(
            Sentence(
                "Rule {rules} of set {number} denies it.",
                rules=", ".join(map(str, numbers)),
                number=rule_set,
            ),
            **extra,
        )


class IdempotencyKeyReused(InvalidRequest):
    code = "idempotency_key_reused"
    title = Sentence("This idempotency key was used for another request")
    hint = Sentence(
        "Nothing was done. Use a new key for a new request; repeat one with its payload unchanged."
    )


class IdempotencyKeyMissing(LedgerError):
    code = "idempotency_key_missing"
    title = Sentence("The Idempotency-Key header is missing")
    hint = Sentence(
        "Nothing was done. Send one key per request, and the same key when you repeat it."
    )


class LimitReached(LedgerError):
    """``limit`` names it, ``of`` says who has it (agent, tenant, token, address)."""

    code = "limit_reached"
    status = 429
    title = Sentence("A limit is reached")
    hint = Sentence(
        "Nothing was done. Repeat the same request, with the same key, after the seconds in "
        "Retry-After; an operator can raise the limit of the agent, in Settings, or of the tenant."
    )

    def __init__(self, detail: str = "", *, retry_after_s: int = 1, **extra: Any) -> None:
        super().__init__(detail, **extra)
        self.retry_after_s = retry_after_s


class InProgress(LedgerError):
    code = "request_in_progress"
    status = 409
    title = Sentence("The first request with this key is still running")
    hint = Sentence("Repeat the same request after the seconds in Retry-After.")
    retry_after_s = 1


class CanceledBefore(LedgerError):
    code = "canceled_before_prepared"
    status = 409
    title = Sentence("This request was canceled before it arrived")
    hint = Sentence("Nothing was prepared. Use a new idempotency key to propose it after all.")


class PlanFailed(LedgerError):
    code = "plan_failed"
    status = 502
    title = Sentence("The tool could not plan")
    hint = Sentence("Nothing was prepared, and holds are released. Try again with the same key.")


class DatabaseAway(LedgerError):
    code = "database_away"
    status = 503
    title = Sentence("The database does not answer")
    hint = Sentence("Repeat the request with the same Idempotency-Key: it is done at most once.")
    retry_after_s = 5


class PlanTimedOut(PlanFailed):
    code = "plan_timed_out"
    status = 504
    title = Sentence("The tool did not plan in its time")
    hint = Sentence(
        "Nothing was prepared; what the tool still holds is released when it returns. Try again "
        "with the same key after the seconds in Retry-After."
    )
    retry_after_s = 5


class PlansBusy(LedgerError):
    code = "plans_busy"
    status = 503
    title = Sentence("Too many tools plan at this moment")
    hint = Sentence(
        "Nothing was done. Try again with the same key after the seconds in Retry-After."
    )
    retry_after_s = 2


class AddressSilent(PlansBusy):
    code = "address_silent"
    title = Sentence("The tool's service does not answer")
    retry_after_s = 10


class PermitsOff(LedgerError):
    code = "permits_off"
    status = 503
    title = Sentence("No permits are issued here")
    hint = Sentence("Nothing was done. An operator has to set ASSENT_PERMIT_KEY.")
    retry_after_s = 60
