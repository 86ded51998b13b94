"""The policy documents that supervising agents decide by."""

from __future__ import annotations

import re

from django.db import models
from django.db.models.functions import Lower, Now

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
        """What stands before the first paragraph: front matter, title, introduction."""
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
