"""Slack decides only on what its message shows in full: every value of the intent, uncut."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone, translation
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as some

from approvals.desk import policies
from approvals.models import SlackMessage, SlackWorkspace
from approvals.presentation import full_display, labels
from approvals.slack.rendering import render
from approvals.slack.rendering.signed_values import ButtonValue
from ledger import contracts
from ledger.models import Transaction
from ledger.seals import intents
from tests.conftest import propose
from tests.fake_slack import FakeSlack
from tests.slack.conftest import buttons_of, ephemeral_text, only_message, settle, state_of

DECIDING = {"approve", "reject"}


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> None:
    def mail(to: str, fields: dict[str, Any], bcc: str = "") -> dict[str, str]:
        return {"receipt_id": "1"}

    contract = replace(contracts.tools["pay"].contract, operation_key="mail:{tenant}:{to}")
    tool = contracts.Tool(mail, contract)

    @tool.plan
    def plan(to: str) -> contracts.Plan:
        return contracts.Plan(f"Mail to {to}", amount=Decimal("1.00"), currency="EUR")

    monkeypatch.setitem(contracts.tools, "mail", tool)


PUSHING = {
    "8 fields of 300": {f"field {n}": "x" * 300 for n in range(8)},
    "40 fields of 300": {f"field {n}": "x" * 300 for n in range(40)},
    "4 fields of 40": {f"f{n}": "y" * 40 for n in range(4)},
    "4 fields of 5000": {f"f{n}": "y" * 5000 for n in range(4)},
    "long names": {"k" * 3000 + str(n): "v" for n in range(3)},
    "nested": {"a": {"b": {"c": [{"d": "x" * 200} for _ in range(30)]}}},
    "a list of 200": {"to": [f"person{n}@example.com" for n in range(200)]},
    "empty lines": {"text": "\n" * 200},
    "markup": {"<!here> `": "```\n*x*" * 50},
}


@pytest.mark.parametrize("what", PUSHING)
def test_no_argument_is_forced_past_a_person(what, slack, workspace, mail, acme):
    row = propose("mail", to="ana@example.com", fields=PUSHING[what], bcc="mallory@evil.example")
    settle()

    message = only_message(slack)
    shown_text = FakeSlack.plain(message)

    if DECIDING & set(buttons_of(message)):
        assert_shows_all(row, shown_text)
    else:
        assert "Decide on the desk" in shown_text


def test_what_fits_is_decided_in_slack(slack, workspace, served, slack_alice, mail, a_transaction):
    """The message that hid a bcc behind four fields now shows it, and may be approved."""
    row = propose("mail", to="a@x.example", fields=PUSHING["4 fields of 40"], bcc="m@evil.example")
    settle()

    message = only_message(slack)
    assert "m@evil.example" in FakeSlack.plain(message)
    slack.click(message, "approve", slack_alice)
    settle()
    assert state_of(row) in {"approved", "committed"}


def test_warnings_that_do_not_fit_take_the_button_away(slack, workspace, mail, acme):
    row = propose("mail", to="ana@example.com", fields={})
    Transaction.objects.filter(pk=row.pk).update(
        warnings=[f"Warning {n}: {'w' * 900}" for n in range(12)]
    )
    settle()

    message = only_message(slack)
    assert not DECIDING & set(buttons_of(message))
    assert "7 more warnings on the desk." in FakeSlack.plain(message)


def test_a_long_reason_of_the_agent_takes_the_button_away(slack, workspace, mail, acme):
    row = propose("mail", to="ana@example.com", fields={})
    Transaction.objects.filter(pk=row.pk).update(stated_reason="Trust me. " * 400)
    settle()

    assert not DECIDING & set(buttons_of(only_message(slack)))


def test_an_old_button_on_what_is_not_shown_in_full_decides_nothing(
    slack, workspace, served, slack_alice, mail, a_transaction
):
    """A message from before the rule, or a button taken from elsewhere: the verb looks again."""
    row = propose("mail", to="ana@example.com", fields=PUSHING["40 fields of 300"], bcc="m@evil")
    settle()
    message, stored = only_message(slack), SlackMessage.objects.get()
    press = ButtonValue("approve", str(row.pk), row.intent_digest, workspace.team_id, stored.pk)
    message.blocks[-1]["elements"].append(
        {
            "type": "button",
            "action_id": "approve",
            "value": press.signed(),
            "text": {"type": "plain_text", "text": "Approve"},
        }
    )

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "was not shown in full" in ephemeral_text(slack)


any_value = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**53), 2**53)
    | some.text(some.characters(exclude_categories=("Cs", "Cc")), max_size=120),
    lambda inner: (
        some.lists(inner, max_size=5)
        | some.dictionaries(
            some.text(some.characters(exclude_categories=("Cs", "Cc")), max_size=40),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
any_words = some.text(some.characters(exclude_categories=("Cs", "Cc")), max_size=200)


@pytest.mark.slow
@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    summary=any_words.filter(str.strip),
    reason=any_words,
    warnings=some.lists(any_words, max_size=8),
    arguments=some.dictionaries(any_words, any_value, max_size=8),
    payload=some.dictionaries(any_words, any_value, max_size=3),
    stretch=some.sampled_from([1, 1, 1, 3, 30]),
    language=some.sampled_from(["en", "de"]),
)
def test_either_all_of_the_intent_is_in_the_message_or_no_button_decides(
    summary, reason, warnings, arguments, payload, stretch, language, workspace_row
):
    row = Transaction(
        tenant="acme",
        tool="pay",
        state="prepared",
        action_summary=" ".join(summary.split()) * stretch,
        stated_reason=reason,
        warnings=warnings,
        payload=payload,
        arguments=arguments,
        proposed_by="agent:acme/x",
        proposed_by_name="X",
        risk_level="HIGH",
        required_approver="HUMAN",
        consequence_level="COMPENSABLE",
        operation_key="pay:acme:1",
        amount=Decimal("48.20"),
        currency="EUR",
        intent_digest="0" * 64,
        created_at=timezone.now(),
        expires_at=timezone.now(),
    )

    workspace_row.language = language
    shown = render(SlackMessage(pk=1, workspace=workspace_row, transaction=row)).blocks

    names = {
        one["action_id"]
        for block in shown
        for one in block.get("elements", ())
        if "action_id" in one
    }
    if DECIDING & names:
        assert full_display.coverage(row, "slack").is_complete
        assert_shows_all(row, FakeSlack.plain(shown), language)
    else:
        assert names == {"open", "stop"}


def assert_shows_all(row: Transaction, shown_text: str, language: str = "en") -> None:
    """Every name and every single value of the intent, found in what a reader of Slack sees."""
    intent = intents.intent_of(row)
    for skipped in ("transaction_id", "financial_impact", "consequence_level", "risk_level"):
        intent.pop(skipped)
    with translation.override(language):
        assert policies.money(row) in shown_text
        assert labels.undo_words(row.consequence_level) in shown_text.casefold()
        assert labels.risk_words(row.risk_level) in shown_text.casefold()
    arguments = intent.pop("arguments")
    for name, value in _names_and_values(arguments) if arguments else ():
        assert name in shown_text or json.dumps(name, ensure_ascii=False) in shown_text, name
        assert _as_said(value) in shown_text, value
    if not intent["warnings"]:
        del intent["warnings"]
    for _, value in _names_and_values(intent):
        assert " ".join(_as_said(value).split()) in " ".join(shown_text.split()), value


def _names_and_values(value: Any, name: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        below = [one for key, item in value.items() for one in _names_and_values(item, key)]
        return [(key, "") for key in value] + below
    if isinstance(value, list) and value:
        return [one for item in value for one in _names_and_values(item, name)]
    return [(name, value)]


def _as_said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@pytest.fixture
def workspace_row(db: None) -> SlackWorkspace:
    return SlackWorkspace.objects.create(team_id="T0ACME", name="Acme", bot_user_id="U1")
