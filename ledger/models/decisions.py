"""The decisions of approvers on transactions, and the evidence that they see."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models import Count, Q
from django.db.models.functions import Lower, Now

from ledger.models.transactions import Transaction
from ledger.states import State


class Evidence(models.Model):
    """The content of one piece of evidence. Its transaction has what was sealed of it.

    Appended, and deleted when the retention of the transaction is over.
    """

    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="+")
    revision = models.PositiveSmallIntegerField(default=1, db_default=1)
    number = models.PositiveSmallIntegerField(help_text="From 1, as the plan had them.")
    content = models.BinaryField()

    class Meta:
        verbose_name_plural = "evidence"
        constraints = [
            models.UniqueConstraint(
                fields=["transaction", "revision", "number"], name="ledger_evidence_numbered_once"
            )
        ]

    def __str__(self) -> str:
        return f"evidence {self.number} of {self.transaction_id}"


def contents_of(row: Any) -> list[bytes | None]:
    """The contents of the evidence of a transaction, in order.

    ``None`` for one that is missing, or is not the one whose SHA-256 was sealed.
    """
    if not row.evidence:
        return []
    rows = Evidence.objects.filter(transaction=row.pk, revision=row.revision)
    stored = rows.values_list("number", "content")
    contents = {number: bytes(content) for number, content in stored}
    return [
        content
        if (content := contents.get(number)) is not None
        and hashlib.sha256(content).hexdigest() == sealed["sha256"]
        else None
        for number, sealed in enumerate(row.evidence, 1)
    ]


class Revision(models.Model):
    """Content of a transaction until another revision replaced it. Events seal its digest."""

    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveSmallIntegerField(help_text="From 1.")
    content = models.JSONField(help_text="Its columns of the intent; empty once it is erased.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["transaction", "number"], name="ledger_revision_numbered_once"
            )
        ]

    def __str__(self) -> str:
        return f"revision {self.number} of {self.transaction_id}"


class Verdict(models.TextChoices):
    APPROVE = "approve", "approved"
    REJECT = "reject", "rejected"
    SEND_BACK = "send_back", "sent back"
    PASS_ON = "pass_on", "passed on to people"


# They end it without an effect, fill no seat, and need a reason.
REFUSALS = frozenset({Verdict.REJECT, Verdict.SEND_BACK})


class CountingDecisions(models.Manager["Decision"]):
    """Without the approvals that were withdrawn: those are history, and count nowhere."""

    def get_queryset(self) -> models.QuerySet[Decision]:
        return super().get_queryset().filter(is_withdrawn=False)


class Decision(models.Model):
    """One decision of one principal on one intent digest."""

    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="decisions")
    principal = models.CharField(max_length=150)
    principal_name = models.CharField(max_length=200)
    verdict = models.CharField(max_length=10, choices=Verdict)
    intent_digest = models.CharField(max_length=64)
    via = models.CharField(max_length=20)
    reason = models.TextField(blank=True)
    # Of an agent: who keeps it, and the policy that it decided by, as its event sealed them.
    kept_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    policy = models.JSONField(
        null=True, help_text="name, version, sha256 and the paragraphs that were cited"
    )
    grant = models.ForeignKey(
        "Grant", on_delete=models.PROTECT, null=True, related_name="decisions"
    )
    at = models.DateTimeField(db_default=Now())
    is_withdrawn = models.BooleanField(default=False, db_default=False)

    objects = CountingDecisions()
    with_withdrawn = models.Manager["Decision"]()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["transaction", "principal"],
                condition=Q(is_withdrawn=False),
                name="ledger_decision_one_counting_vote_each",
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.principal} via {self.via}"


MOST_SUPERVISORS = 100  # with figures of their own
IS_READABLE = Q(decision__transaction__content_erased_at__isnull=True)
# While others may still decide on it, nobody is told what a supervisor's decision is worth.
IS_DECIDED = ~Q(decision__transaction__state=State.PREPARED)


class ReviewVerdict(models.TextChoices):
    AGREE = "agree", "agrees"
    OTHERWISE = "otherwise", "would have decided otherwise"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Verdicts of people on the sampled decisions of one supervisor, in all."""

    agent: str
    agreed: int
    otherwise: int
    waiting: int
    lapsed: int  # their content was erased before anybody reviewed them

    @property
    def reviewed(self) -> int:
        return self.agreed + self.otherwise

    @property
    def percent(self) -> int:
        return round(100 * self.agreed / self.reviewed) if self.reviewed else 0


class ReviewQuerySet(models.QuerySet["Review"]):
    def waiting(self, tenants: Iterable[str]) -> ReviewQuerySet:
        """Not reviewed yet, of decided transactions, and there is still something to read."""
        return self.filter(IS_READABLE, IS_DECIDED, tenant__in=list(tenants), verdict="")

    def agreement(self) -> list[Agreement]:
        """Number of times people agreed with each supervisor of these reviews."""
        counted = (
            self.values_list("agent")
            .order_by("agent")
            .annotate(
                agreed=Count("pk", filter=Q(verdict=ReviewVerdict.AGREE)),
                otherwise=Count("pk", filter=Q(verdict=ReviewVerdict.OTHERWISE)),
                waiting=Count("pk", filter=IS_READABLE & IS_DECIDED & Q(verdict="")),
                lapsed=Count("pk", filter=~IS_READABLE & Q(verdict="")),
            )
        )
        return [Agreement(*counts) for counts in counted[:MOST_SUPERVISORS]]


class Review(models.Model):
    """One decision of a supervisor that is in the sample; without a verdict, it waits.

    Written with the decision. The verdict is sealed as an event of the transaction.
    """

    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="review")
    tenant = models.CharField(max_length=63)
    agent = models.CharField(max_length=150, help_text="The supervisor, as agent:acme/goodwill.")
    verdict = models.CharField(max_length=10, choices=ReviewVerdict, blank=True)
    reviewer = models.CharField(max_length=150, blank=True)
    reviewer_name = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(null=True)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="ledger_review_verdict_has_a_reviewer",
                condition=Q(verdict="", reviewer="", at=None)
                | (~Q(verdict="") & ~Q(reviewer="") & Q(at__isnull=False)),
            )
        ]
        indexes = [
            models.Index(
                name="ledger_review_open", fields=["tenant", "id"], condition=Q(verdict="")
            ),
            models.Index(name="ledger_review_rate", fields=["tenant", "agent", "verdict", "at"]),
        ]

    def __str__(self) -> str:
        return f"{self.agent}: {self.verdict or 'waits'}"


FRONT_MATTER = re.compile(r"\A(---|\+\+\+)\n.*?\n\1\n", re.DOTALL)
# "§ 4 …", "4. …", "4) …" or "4.2 …" at the beginning of a line, also of a heading.
NUMBERED = re.compile(
    r"^(?:#{1,6} +)?(?:§ ?(\d{1,4}(?:\.\d{1,4}){0,3})\.?"
    r"|(\d{1,4}(?:\.\d{1,4}){0,3})[.)]"
    r"|(\d{1,4}(?:\.\d{1,4}){1,3})) +\S",
    re.MULTILINE,
)


class PolicyDocument(models.Model):
    """One version of a policy: Markdown with numbered paragraphs. Kept once, never changed."""

    tenant = models.CharField(max_length=63)
    sha256 = models.CharField(max_length=64)
    name = models.CharField(max_length=100)
    version = models.CharField(max_length=40)
    text = models.TextField()
    added_by = models.CharField(max_length=150)
    added_by_name = models.CharField(max_length=200)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "sha256"], name="ledger_policy_one_per_text"),
            models.UniqueConstraint(
                fields=["tenant", "name", "version"], name="ledger_policy_one_text_per_version"
            ),
            models.UniqueConstraint(
                "tenant", Lower("name"), Lower("version"), name="ledger_policy_one_text_any_case"
            ),
            # And ledger_policy_hash_is_of_text: see sql/policy_hash.sql.
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def paragraphs(self) -> list[tuple[str, str]]:
        """Its numbered paragraphs in order: the number, and the text as it is written."""
        return paragraphs_of(self.text)

    @property
    def opening(self) -> str:
        """Text before the first paragraph: front matter, title, introduction."""
        starts = _starts(self.text)
        return self.text[: starts[0].start()].strip() if starts else self.text.strip()


def paragraphs_of(text: str) -> list[tuple[str, str]]:
    """The numbered paragraphs of a Markdown text; one goes on until the next number begins.

    >>> paragraphs_of("# Refunds\\n\\n1. Up to 50 EUR.\\n2. Never twice.\\n")
    [('1', '1. Up to 50 EUR.'), ('2', '2. Never twice.')]
    """
    starts = _starts(text)
    ends = [*(later.start() for later in starts[1:]), len(text)][: len(starts)]
    return [
        (next(filter(None, start.groups())), text[start.start() : end].strip())
        for start, end in zip(starts, ends, strict=True)
    ]


def _starts(text: str) -> list[re.Match[str]]:
    begin = match.end() if (match := FRONT_MATTER.match(text)) else 0
    return list(NUMBERED.finditer(text, begin))
