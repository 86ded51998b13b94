"""Tells if the service of a tool's owner keeps the protocol: every check, and what it found.

``manage.py check_tool`` runs it. It carries out real operations: it is for services that may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from approvals.conformance import checks, terms
from approvals.conformance.probe import Probe, Skipped, Unexpected

Check = Callable[[Probe], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. ``came`` is empty if it was as expected."""

    name: str
    expected: str
    why: str
    came: str = ""
    skipped: str = ""

    @property
    def is_failure(self) -> bool:
        return bool(self.came)


# A sentence of what is expected, and one of why it matters. Those of all answers come last.
CHECKS: tuple[tuple[str, Check, str, str], ...] = (
    (
        "missing signature",
        checks.missing_signature,
        "401 or 403 to a commit without a signature",
        "Anybody who reaches the address could have things done that nobody signed off.",
    ),
    (
        "bad signature",
        checks.bad_signature,
        "401 or 403 to a commit that another key has signed under the name of ours",
        "A signature that is not verified protects no more than none.",
    ),
    (
        "expired signature",
        checks.expired_signature,
        "401 or 403 to a commit whose signature expired ten minutes ago",
        "What was recorded once could be sent at any time later.",
    ),
    (
        "early signature",
        checks.early_signature,
        "401 or 403 to a commit whose signature was made ten minutes from now",
        "What was signed with a wrong clock could be kept and sent later.",
    ),
    (
        "altered body",
        checks.altered_body,
        "401 or 403 to a commit whose body was changed after it was signed",
        "Somebody in between could change the amount that people signed off.",
    ),
    (
        "other target",
        checks.other_target,
        "401 or 403 to a signature made for another path; of a webhook only the body counts",
        "A signed rollback could be turned into a commit.",
    ),
    (
        "other address",
        checks.other_address,
        "401 or 403 to a signature that was made for another address, whatever the Host says",
        "What people signed off for another tool could be sent on to this one.",
    ),
    (
        "another tool or tenant",
        checks.other_tool,
        "a status of 400 or more to a commit that is signed for another tool, or another tenant",
        "What people signed off for somebody else would be done here.",
    ),
    (
        "replayed nonce",
        checks.replayed_nonce,
        "401 or 403 to a request that is sent a second time as it was; the same answer, if it is a "
        "webhook",
        "Whoever records a request could repeat it.",
    ),
    (
        "credential",
        terms.credential,
        "401 or 403 to a commit that is signed, without the header or with another value",
        "Whoever can have Assent sign for another tool could have things done here.",
    ),
    (
        "plan",
        checks.plan,
        "200 with a plan that has a summary",
        "The summary is what people read before they sign.",
    ),
    (
        "commit",
        checks.commit,
        "200 with a receipt that has an id, or 202 and the same by operations/… in time",
        "Without a receipt nobody knows whether it happened: it is in doubt.",
    ),
    (
        "double commit",
        checks.double_commit,
        "200 with the first receipt to a second commit of one key",
        "After a lost answer Assent may ask again, and it must not happen twice.",
    ),
    (
        "two commits at once",
        checks.commits_at_once,
        "one receipt for commits of one key that come at the same time",
        "Two workers may ask at once when one was thought dead.",
    ),
    (
        "other arguments",
        checks.other_arguments,
        "409 conflict, or 422 nothing-happened, to other arguments under a key that was used",
        "What was done would not be what people signed.",
    ),
    (
        "stale fencing",
        checks.stale_fencing,
        "409 conflict to a lower fencing than was seen for the key",
        "A worker that was thought dead must not act after the one that took over.",
    ),
    (
        "lapsed lease",
        checks.lapsed_lease,
        "409 conflict to a request whose lease_until has passed, and nothing is done",
        "A request that was held up on its way must not act when it arrives at last.",
    ),
    (
        "unknown operation",
        checks.unknown_operation,
        "404 to operations/… for a key that was never used",
        "By this answer it is known that nothing happened.",
    ),
    (
        "look-up",
        checks.look_up,
        "200 with the same receipt from operations/… after a commit",
        "It settles what is in doubt without a person.",
    ),
    (
        "rollback of what was done",
        checks.rollback_after_commit,
        "409 conflict to a rollback after a commit",
        "The ledger would say that nothing happened although it did.",
    ),
    (
        "empty rollback",
        checks.empty_rollback,
        "200 to a rollback of what was never planned, and again",
        "A rollback may come before the plan whose hold it releases, and more than once.",
    ),
    (
        "late commit",
        checks.late_commit,
        "409 conflict to a commit after a rollback",
        "What people rejected would still be done.",
    ),
    (
        "late plan",
        checks.late_plan,
        "409 conflict to a plan after a rollback",
        "What it holds would never be released.",
    ),
    (
        "replan",
        terms.replan,
        "200 with a plan to replan, and the commit of the first plan once the second is released",
        "The first plan is what people still sign, if the second comes too late.",
    ),
    (
        "rollback of a former plan",
        terms.release_of_one,
        "200 to the rollback of what the first plan held, and the commit of the second plan",
        "What people corrected and signed would be refused.",
    ),
    (
        "still valid",
        terms.still_valid,
        "200 with still_valid, true or false",
        "Anything else proves nothing: what was signed off would never be carried out.",
    ),
    (
        "effect of still valid",
        terms.effect_of_still_valid,
        "no receipt from operations/… for a key that was only asked still_valid",
        "It is asked before anything is carried out, and as often as it takes.",
    ),
    (
        "compensate",
        terms.compensate,
        "200 with a receipt that has an id to compensate after a commit",
        "Without a receipt nobody knows whether it was compensated: Assent asks again.",
    ),
    (
        "double compensate",
        terms.double_compensate,
        "200 with the first receipt to a second compensate of one key",
        "After a lost answer Assent asks again, and it must not be paid back twice.",
    ),
    (
        "compensate of nothing",
        terms.empty_compensate,
        "a status of 400 or more to compensate for a key that was never used",
        "What was never taken would be paid back.",
    ),
    (
        "published contract",
        terms.contract,
        "a contract of this tool, as docs/http-tools.md has it, if the service publishes one",
        "What cannot be read cannot be pinned, and no change of it is noticed.",
    ),
    (
        "promises",
        terms.promises,
        "in the contract every promise that the manifest relies on",
        "Assent goes by the manifest, and the service would not do what that says.",
    ),
    (
        "arguments",
        terms.schema,
        "in the contract the same json_schema as the manifest has in arguments",
        "What people sign off could be refused afterwards, or be taken for something else.",
    ),
    (
        "broken body",
        checks.broken_body,
        "an answer with a status of 400 or more to a signed body that is no JSON",
        "What cannot be read must not be guessed.",
    ),
    (
        "kill",
        checks.kill,
        "after a kill, by operations/… or a second commit, the receipt of what was done",
        "An effect that is forgotten in a crash is done again, or never found.",
    ),
    (
        "slow answers",
        checks.slow_answers,
        "every answer within the timeout of the contract",
        "A late answer is no answer: the operation is in doubt.",
    ),
    (
        "large answers",
        checks.large_answers,
        "no answer of more than 256 kB",
        "A larger one is not read to its end, and the operation is in doubt.",
    ),
    (
        "form of answers",
        checks.form_of_answers,
        "a JSON object in every answer, and no redirect",
        "Anything else proves nothing, and the operation is in doubt.",
    ),
    (
        "operation of answers",
        checks.operations_in_answers,
        "in no answer another operation_key than the one that was asked for",
        "Such an answer proves nothing, and the operation is in doubt.",
    ),
    (
        "secrets",
        checks.secrets_in_answers,
        "no answer that repeats a signature or shows a stack trace",
        "Agents and approvers read what an answer says.",
    ),
)


def findings(probe: Probe) -> Iterator[Finding]:
    """Each check as it ends."""
    for name, check, expected, why in CHECKS:
        try:
            check(probe)
        except Skipped as reason:
            yield Finding(name, expected, why, skipped=str(reason))
        except Unexpected as unexpected:
            yield Finding(name, expected, why, came=str(unexpected))
        else:
            yield Finding(name, expected, why)
