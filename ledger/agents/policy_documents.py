"""The policy documents of supervising agents: kept once by their hash, cited by decisions."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.transaction import atomic

from ledger import seals
from ledger.errors import InvalidRequest, NotFound, NotPossible
from ledger.models import PolicyDocument, paragraphs_of
from ledger.principals import Principal

TEXT_MOST = 64 * 1024  # bytes of UTF-8
DOCUMENTS_MOST = 500  # of one tenant
OF_ONE_MOST = 200  # that one agent added, so that no agent alone uses up the tenant's
PARAGRAPHS_MOST = 500  # of one document
NAME_MOST, VERSION_MOST = 100, 40  # characters
POLICY_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*( [A-Za-z0-9._-]+)*")
# Each number has one way to be written, so that a citation names one paragraph.
NUMBER = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))*")


@dataclass(frozen=True, slots=True)
class Citation:
    """Rules a decision says it was made by: the hash of a document, and numbers of paragraphs."""

    sha256: str
    paragraphs: tuple[str, ...]


def keep_policy(
    tenant: str, *, name: str, version: str, text: str, by: Principal
) -> tuple[PolicyDocument, bool]:
    """The document with this text, and whether it is new.

    Raises ``InvalidRequest`` for a text without numbered paragraphs, and ``NotPossible`` where the
    version has another text, or the tenant has too many.
    """
    _check(name, version, text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    kept = PolicyDocument.objects.filter(tenant=tenant, sha256=sha256).first()
    if kept is not None:
        return kept, False
    version_of_it = {"name__iexact": name, "version__iexact": version}
    if PolicyDocument.objects.filter(tenant=tenant, **version_of_it).exists():
        raise _other_text(name, version)
    if PolicyDocument.objects.filter(tenant=tenant).count() >= DOCUMENTS_MOST:
        raise NotPossible(
            f"{tenant} has {DOCUMENTS_MOST} policy documents; they are never deleted."
        )
    if PolicyDocument.objects.filter(tenant=tenant, added_by=str(by)).count() >= OF_ONE_MOST:
        raise NotPossible(f"{by} has added {OF_ONE_MOST} policy documents; that is the most.")
    columns = {"name": name, "version": version, "text": text}
    author = {"added_by": str(by), "added_by_name": by.display_name}
    try:
        with atomic():
            return PolicyDocument.objects.get_or_create(
                tenant=tenant, sha256=sha256, defaults=columns | author
            )
    except IntegrityError:
        raise _other_text(name, version) from None


def _other_text(name: str, version: str) -> NotPossible:
    return NotPossible(
        f"{name} {version} has another text already.", hint="Give the new text a new version."
    )


def _check(name: str, version: str, text: str) -> None:
    for label, most in ((name, NAME_MOST), (version, VERSION_MOST)):
        if len(label) > most or not POLICY_LABEL.fullmatch(label):
            raise InvalidRequest(
                "Name and version are made of letters, digits, . _ and -, with single spaces "
                "between."
            )
    if len(text.encode()) > TEXT_MOST:
        raise InvalidRequest(f"A policy document has at most {TEXT_MOST // 1024} KiB.")
    seals.refuse_unsafe_text(text, "text")
    numbers = Counter(number for number, _ in paragraphs_of(text))
    if not numbers or len(numbers) > PARAGRAPHS_MOST:
        raise InvalidRequest(f"It needs 1 to {PARAGRAPHS_MOST} numbered paragraphs, as “1. …”.")
    if odd := [number for number in numbers if not NUMBER.fullmatch(number)]:
        raise InvalidRequest(
            f"Write the number {odd[0]} with the digits 0 to 9, without a 0 first."
        )
    if twice := [number for number, times in numbers.items() if times > 1]:
        raise InvalidRequest(f"The paragraph {twice[0]} is there twice: a citation must be clear.")


def kept_policy(tenant: str, sha256: str) -> PolicyDocument:
    """Raises ``NotFound`` also for a document of another tenant."""
    document = PolicyDocument.objects.filter(tenant=tenant, sha256=sha256).first()
    if document is None:
        raise NotFound("There is no such policy document.", hint="POST /api/v1/policies keeps it.")
    return document


def sealed_citation(tenant: str, citation: Citation) -> dict[str, Any]:
    """The citation as the event of a decision seals it: only of what the document says.

    Raises ``InvalidRequest`` for a document that is not kept, and for a paragraph that it lacks.
    """
    document = PolicyDocument.objects.filter(tenant=tenant, sha256=citation.sha256).first()
    if document is None:
        raise InvalidRequest(
            "The policy document is not kept here.",
            hint="POST /api/v1/policies with its text first. Nothing was decided.",
        )
    known = {number for number, _ in document.paragraphs}
    if missing := [number for number in citation.paragraphs if number not in known]:
        raise InvalidRequest(
            f"{document} has no paragraph {missing[0]}.", hint="Nothing was decided."
        )
    return {
        "name": document.name,
        "version": document.version,
        "sha256": document.sha256,
        "paragraphs": list(dict.fromkeys(citation.paragraphs)),
    }
