"""What the rooms below say is English for machines, and in their own language for people."""

from __future__ import annotations

import ast
import json
import pickle
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse
from django.utils import translation

from approvals.models import Preferences
from approvals.presentation.sentences import in_words, kept_in_words, refusal_in_words
from ledger import states
from ledger.contracts import json_schemas, schema_errors
from ledger.errors import BY_CODE, LedgerError, Sentence, source_of
from ledger.models import Transaction
from ledger.principals import WORKER, Surface
from ledger.states import Reasons
from ledger.transactions.transitions import advance

# Modules whose refusals pages show, by the verbs that they call.
SHOWN = (
    *("reasons", "reviews", "settlements", "orders", "decisions", "eligibility"),
    *("retention", "questions", "why_not_revisable"),
)


def errors_below(error: type[LedgerError]):
    yield error
    for child in error.__subclasses__():
        yield from errors_below(child)


@pytest.mark.parametrize("error", sorted(set(errors_below(LedgerError)), key=lambda e: e.__name__))
def test_every_refusal_has_german_words(error):
    with translation.override("de"):
        for text in filter(None, (error.title, error.hint)):
            assert isinstance(text, Sentence), f"{error.__name__}: {text}"
            assert in_words(text) != text, f"{error.__name__}: {text}"


def test_every_sentence_that_pages_show_is_said_as_one():
    """No literal and no f-string: nobody could translate it."""
    plain = []
    for file in Path(settings.BASE_DIR, "ledger/transactions").glob("*.py"):
        if file.stem in SHOWN:
            plain += [f"{file.name}: {text}" for text in plain_refusals(file)]
    plain += plain_refusals(Path(settings.BASE_DIR, "ledger/proof/retention.py"))
    plain += plain_refusals(Path(settings.BASE_DIR, "ledger/limits/stocks.py"))

    # Of agents alone: no person passes a decision on.
    assert plain == ["eligibility.py: Only a supervising agent passes a decision on."]


def plain_refusals(file: Path) -> list[str]:
    raised = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Raise)]
    given = [
        each.exc.args[0] for each in raised if isinstance(each.exc, ast.Call) and each.exc.args
    ]
    return [
        each.value if isinstance(each, ast.Constant) else ast.unparse(each)
        for each in given
        if isinstance(each, ast.Constant | ast.JoinedStr)
    ]


def test_a_sentence_is_english_for_machines_whatever_language_is_active():
    state = Sentence("being carried out")
    said = Sentence("It is {state}.", state=state)

    with translation.override("de"):
        assert json.dumps({"detail": said}) == '{"detail": "It is being carried out."}'
        assert str(said) == f"{said}" == "It is being carried out."
        assert in_words(said) == "Stand: wird ausgeführt."


def test_a_sentence_is_the_same_after_a_queue():
    said = Sentence("{tool} declares no compensation.", tool="{pay}")

    again = pickle.loads(pickle.dumps(said))

    assert (again, again.template, again.values) == (said, said.template, said.values)


def test_what_an_agent_or_a_tool_wrote_is_never_translated():
    with translation.override("de"):
        assert in_words("rejected") == "rejected"
        assert refusal_in_words(LedgerError("There is no such task")) == "There is no such task"


SCHEMA = {
    "type": "object",
    "properties": {
        "number": {"type": "integer", "minimum": 3, "maximum": 5},
        "more": {"exclusiveMinimum": 3, "multipleOf": 2},
        "less": {"exclusiveMaximum": 3},
        "short": {"minLength": 5, "pattern": "^x", "format": "email"},
        "long": {"maxLength": 2},
        "few": {"minItems": 3, "uniqueItems": True},
        "many": {"maxItems": 1},
        "chosen": {"enum": ["a", "b"]},
        "fixed": {"const": 1},
        "kind": {"type": "string"},
    },
    "required": ["needed"],
    "additionalProperties": False,
}
WRONG = [
    {"number": 1, "more": 3, "less": 4, "short": "ab", "long": "abc", "few": [1, 1], "extra": 1},
    {"number": 9, "many": [1, 2], "chosen": "c", "fixed": 2, "kind": 7},
]


def test_each_rule_of_a_form_has_german_words():
    with translation.override("de"):
        found = [each["message"] for value in WRONG for each in json_schemas.misfits(SCHEMA, value)]
        told = [in_words(message) for message in found]

    assert {message.template for message in found} == {
        words.template for words in schema_errors.WORDS.values()
    }
    assert "Es muss mindestens 3 sein." in told
    assert "Verlangt ist ein Text." in told
    assert "needed fehlt." in told
    assert [text for text in told if re.search(r"\b(is|has|It)\b", text)] == []


def test_machines_read_what_the_validator_says():
    (misfit,) = json_schemas.misfits({"minimum": 3}, 1)

    assert misfit == {"field": "", "message": "1 is less than the minimum of 3"}


def test_a_rule_without_words_is_told_as_the_validator_says_it():
    (misfit,) = json_schemas.misfits({"not": {"type": "integer"}}, 1)

    assert in_words(misfit["message"]) == misfit["message"]


@pytest.mark.parametrize("code", BY_CODE)
def test_a_standard_reason_is_kept_in_english_and_read_in_german(code):
    names = re.findall(r"\{(\w+)\}", BY_CODE[code].template + BY_CODE[code].reads)
    reason = BY_CODE[code](**dict.fromkeys(names, "Bob Tanaka"))
    row = Transaction(error=str(reason), error_source=json.loads(json.dumps(source_of(reason))))

    assert kept_in_words(row, "error") == BY_CODE[code].template.format(
        **dict.fromkeys(names, "Bob Tanaka")
    )
    with translation.override("de"):
        german = kept_in_words(row, "error")
    assert german not in {str(reason), kept_in_words(row, "error")}
    assert ("Bob Tanaka" in german) == ("{" in BY_CODE[code].template)


def test_what_somebody_wrote_is_shown_as_it_is():
    row = Transaction(error="Nobody decided in time.")

    with translation.override("de"):
        assert kept_in_words(row, "error") == "Nobody decided in time."


@pytest.mark.parametrize(
    "source",
    [
        {"code": "nothing_happened", "values": {}},
        {"code": "attempt", "values": {"number": 2}},
        {"code": "attempt", "values": {}},
        {"code": "of_a_later_version", "values": {}},
    ],
)
def test_a_source_that_says_something_else_than_the_text_is_not_believed(source):
    row = Transaction(error="Attempt 1 with the same operation key.", error_source=source)

    with translation.override("de"):
        assert kept_in_words(row, "error") == "Attempt 1 with the same operation key."


def test_the_source_follows_its_text_through_every_move(approved, alice):
    row = approved()
    moved = advance(row.pk, states.CLAIM, by=WORKER, via=Surface.SYSTEM, error=Reasons.SILENCE())
    assert moved.error_source == {"code": "silence", "values": {}}
    assert moved.error == "Nobody decided in time; silence is not consent."

    moved = advance(row.pk, states.DOUBT, by=WORKER, via=Surface.SYSTEM, error="Its own words.")
    assert (moved.error, moved.error_source) == ("Its own words.", None)


def test_who_comes_too_late_reads_why_in_their_language(as_bob, bob_user, a_payment, expired):
    Preferences.objects.create(user=bob_user, language="de")
    row = expired(a_payment())

    page = as_bob.post(
        reverse("desk:transaction-reject", args=[row.pk]),
        {"digest": row.intent_digest, "reason": "Zu viel."},
    )

    assert page.status_code == 409
    assert "Die Zeit war um; niemand kann mehr darüber entscheiden." in page.content.decode()


@pytest.fixture
def expired(db):
    from django.db.models.functions import Now

    from ledger.models import Transaction

    def make(row):
        Transaction.objects.filter(pk=row.pk).update(expires_at=Now())
        return row

    return make
