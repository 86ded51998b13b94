"""A surface accepts a decision only on a transaction or question that it has shown in full.

The intent digest proves which row was decided; this rule proves that the person could read all of
it. The texts to show are the same on every surface (``parts_of``); ``SURFACES`` has how much each
surface shows without cutting. A surface that is not listed shows nothing and decides nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _

from a2a.models import Question
from approvals.presentation import evidence, labels
from approvals.presentation.sentences import in_words
from ledger import principals
from ledger.errors import NotAllowed, Sentence
from ledger.models import Transaction
from ledger.states import State

LONGEST = 120  # characters of the name of one text
DESK, SLACK = principals.Surface.WEB, principals.Surface.SLACK


@dataclass(frozen=True, slots=True)
class Part:
    """One text that the person who decides has to see."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """The amount that one surface shows without cutting.

    ``part_most`` and ``lines_most`` are the characters and lines of one text, ``parts_most`` is the
    number of texts, ``all_most`` the characters of all texts, with ``markup`` added for each.
    ``warnings_most`` is the number of warnings.
    """

    part_most: int
    lines_most: int
    parts_most: int
    all_most: int
    markup: int = 0
    warnings_most: int = 100


# The desk folds longer texts, and then accepts an approval only from the page that unfolds them.
SURFACES: dict[str, Limits] = {
    DESK: Limits(part_most=1200, lines_most=25, parts_most=60, all_most=12_000, warnings_most=3),
    SLACK: Limits(part_most=1000, lines_most=25, parts_most=40, all_most=6000, markup=150),
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """The names of the texts that a surface does not show in full."""

    missing: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        return not self.missing


class NotShownInFull(NotAllowed):
    code = "not_shown_in_full"
    status = 409
    title = Sentence("Not everything was shown")
    hint = Sentence(
        "Nothing was decided. Open it on the desk, choose “Show everything”, then decide."
    )


def coverage(row: Transaction, surface: str) -> Coverage:
    """The parts of a transaction that the surface leaves out when it is opened there."""
    parts = [*parts_of(row), *(_evidence_of(row) if surface == DESK else ())]
    shown, limits = _coverage(parts, surface), SURFACES.get(surface)
    if row.evidence and surface != DESK:
        shown = Coverage((*shown.missing, Sentence("the evidence")))
    more = len(row.warnings) - limits.warnings_most if limits else 0
    if more <= 0:
        return shown
    return Coverage((*shown.missing, Sentence("{number} more warnings", number=more)))


def question_coverage(question: Question, surface: str) -> Coverage:
    """The parts of a question and its evidence that the surface leaves out."""
    shown = _coverage(list(parts_of_question(question)), surface)
    has_files = any("text" not in part and "data" not in part for part in question.evidence)
    if has_files and surface != DESK:
        return Coverage((*shown.missing, Sentence("a file")))
    return shown


def parts_of(row: Transaction) -> Iterator[Part]:
    """Every text that the intent digest covers, and the reason that the agent gave."""
    yield Part(Sentence("the summary"), row.action_summary)
    for number, warning in enumerate(row.warnings, 1):
        yield Part(Sentence("warning {number}", number=number), str(warning))
    for field in labels.compared(row):
        if field.is_validated:
            yield Part(field.name, labels.plain(field.validated))
        if field.is_requested and (field.is_changed or not field.is_validated):
            yield Part(
                Sentence("{name} as requested", name=field.name), labels.plain(field.requested)
            )
    yield Part(Sentence("the operation key"), row.operation_key)
    if row.stated_reason.strip():
        yield Part(Sentence("the agent's reason"), row.stated_reason)


def _evidence_of(row: Transaction) -> Iterator[Part]:
    """The texts in its evidence. The digest, which the proof is over, covers the files as well."""
    for piece in evidence.pieces_of(row):
        yield Part(Sentence("the evidence “{name}”", name=piece.name), piece.text)


def parts_of_question(question: Question) -> Iterator[Part]:
    yield Part(Sentence("the question"), question.text)
    for number, part in enumerate(question.evidence, 1):
        yield Part(Sentence("evidence {number}", number=number), labels.evidence(part))


def _coverage(parts: list[Part], surface: str) -> Coverage:
    limits = SURFACES.get(surface)
    if limits is None:
        return Coverage((Sentence("everything"),))
    missing: list[str] = [
        Sentence("{name} ({number} characters)", name=part.name, number=len(part.text))
        for part in parts
        if not _fits(part, limits)
    ]
    if len(parts) > limits.parts_most:
        missing.append(Sentence("{number} fields", number=len(parts) - limits.parts_most))
    if not missing and sum(_cost(part, limits) for part in parts) > limits.all_most:
        number = sum(len(part.text) for part in parts)
        missing.append(Sentence("{number} characters together", number=number))
    return Coverage(tuple(missing))


def _fits(part: Part, limits: Limits) -> bool:
    is_long = max(_units(part.name), _units(part.text)) > limits.part_most
    return not is_long and part.text.count("\n") < limits.lines_most


def _cost(part: Part, limits: Limits) -> int:
    return _units(part.name) + _units(part.text) + limits.markup


def _units(text: str) -> int:
    """The length of the text as JSON in UTF-16 units: no surface counts more."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-16-le", "surrogatepass")) // 2 - 2


# --- the proof -------------------------------------------------------------------------------


def proof_of(row: Transaction, user: User) -> str:
    """Only the page has it that shows this person the whole transaction: the time, in
    milliseconds, and an HMAC."""
    return _signed(row, user, int(time.time() * 1000))


def _signed(row: Transaction, user: User, shown_at: int) -> str:
    message = f"{row.pk}:{row.intent_digest}:{user.pk}:{shown_at}"
    mac = salted_hmac("approvals.showing", message, algorithm="sha256").hexdigest()
    return f"{shown_at}.{mac}"


def seconds_shown(row: Transaction, user: User, proof: str) -> float | None:
    """Seconds since the page was made that has this proof; ``None`` if it proves nothing."""
    shown_at = proof.partition(".")[0]
    if not (shown_at.isascii() and shown_at.isdigit() and len(shown_at) < 16):
        return None
    if not constant_time_compare(proof, _signed(row, user, int(shown_at))):
        return None
    return max(0.0, time.time() - int(shown_at) / 1000)


def check(
    row: Transaction, *, via: str, user: User, proof: str = "", has_opened: bool = False
) -> None:
    """Raises ``NotShownInFull`` unless this surface has shown this person the row in full.

    ``has_opened``: the person says so of the PDFs, which no page shows. A decided row passes: the
    function that decides explains who was faster.
    """
    pdfs = evidence.names_of_pdfs(row)
    if pdfs and not has_opened and row.state == State.PREPARED:
        raise NotShownInFull(
            _("You have not said that you opened {names}.").format(names=", ".join(pdfs)),
            hint=_("Nothing was decided. Open it on the desk, tick that you read it, then decide."),
        )
    shown = coverage(row, via)
    if shown.is_complete or row.state != State.PREPARED:
        return
    if via == DESK and seconds_shown(row, user, proof) is not None:
        return
    texts = missing_texts(shown)
    raise NotShownInFull(_("It was not shown in full: {texts}.").format(texts=texts))


def check_question(question: Question, *, via: str) -> None:
    """Raises ``NotShownInFull`` if the surface is too small for the question; the desk never is."""
    if via != DESK and not question_coverage(question, via).is_complete:
        raise NotShownInFull(hint=_("Nothing was answered. Open it on the desk."))


def missing_texts(shown: Coverage) -> str:
    """``the summary (2,900 characters), 12 fields and 3 more``."""
    first = ", ".join(in_words(text)[:LONGEST] for text in shown.missing[:3])
    if (more := len(shown.missing) - 3) <= 0:
        return first
    return _("{first} and {number} more").format(first=first, number=more)
