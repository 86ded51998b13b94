"""What a message shows, where it goes, and that nothing in it breaks out."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as some

from approvals.models import Membership, SlackMessage, SlackRoute
from approvals.slack.rendering import render, shortened
from ledger import contracts
from ledger.api.rendering import render_token
from ledger.models import Delivery, Transaction
from ledger.principals import Principal
from ledger.reporting.usage import counting
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal
from tests.fake_slack import FakeSlack
from tests.fake_slack.block_kit import refuse_bad_blocks
from tests.slack.conftest import CHANNEL, catch_up, make_due, only_message, route, settle, thread_of

NASTY = (
    "<!channel> <@U0ALICE> @here #general https://evil.example <https://evil.example|click> "
    "*bold* _it_ ~no~ `code` ```block``` &amp; :tada: > quote\n- list\n"
)


def test_the_message_says_what_was_asked_for_lately(slack, workspace, a_transaction):
    a_transaction("pay")
    settle()
    (first,) = slack.messages
    assert "The agent asks for this for the first time in 30 days." in FakeSlack.plain(first)
    assert "Unusual:" not in FakeSlack.plain(first)

    counting.count_batch()
    a_transaction("pay")
    settle()
    assert "Helpdesk agent asked 2 times for “Pay” in 30 days: 0 approved, 0 rejected." in (
        FakeSlack.plain(slack.messages[-1])
    )


def test_the_message_says_which_number_stands_in_place_of_the_amount(slack, workspace, as_helpdesk):
    arguments = {"reference": "order-7", "amount": "484.00"}
    as_helpdesk.propose(arguments=arguments, reason="The lamp broke, 48.40 back.")
    settle()

    (message,) = slack.messages
    assert "Unusual:\n The reason says 48.40, the amount is €484.00." in FakeSlack.plain(message)


def test_the_message_says_what_will_happen_to_whom_and_how_much(slack, posted, workspace):
    row, message = posted(reference="order-1042", amount="4820.00")

    said = FakeSlack.plain(message)

    for words in (
        "Pay 4820.00 EUR for order-1042",
        "€4,820.00",
        "Can be compensated",
        "Large amount.",
        "Take €4,820.00 back for order-1042.",
        "Helpdesk agent",
        "high risk",
        "order-1042",
        "Approve €4,820.00",
        "Reject…",
        "Open",
    ):
        assert words in said, words
    assert f"<!date^{int(row.expires_at.timestamp())}^" in json.dumps(message.blocks)
    assert message.text == "Pay 4820.00 EUR for order-1042: waits for sign-off"
    (link,) = [one for one in message.blocks[-1]["elements"] if one["action_id"] == "open"]
    assert link["url"] == f"http://localhost:8000/transactions/{row.pk}/"


def test_what_planning_changed_is_marked(slack, workspace, a_transaction, monkeypatch):
    row = a_transaction("pay")
    Transaction.objects.filter(pk=row.pk).update(payload={**row.payload, "amount": "99.00"})
    settle()

    assert "amount\n: \n48.20\n changed from \n99.00" in FakeSlack.plain(only_message(slack))


def proposed(reason="", **arguments):
    answer = coordinator.prepare(
        Proposal("sprawl", arguments, reason=reason),
        by=Principal("agent", "acme/helpdesk", "Helpdesk agent"),
        tenant="acme",
        key=uuid4().hex,
        via="api",
        render=render_token,
    )
    return Transaction.objects.get(pk=answer.transaction_id)


@pytest.fixture
def sprawl(monkeypatch):
    """A tool with an argument of any shape, whose plan repeats the agent's words."""

    def sprawl(reference: str, said: str, fields: dict[str, str]) -> dict[str, str]:
        return {"receipt_id": "1"}

    contract = replace(contracts.tools["pay"].contract, operation_key="sprawl:{tenant}:{reference}")
    tool = contracts.Tool(sprawl, contract)

    @tool.plan
    def plan(said: str) -> contracts.Plan:
        return contracts.Plan(
            said, warnings=[said[:900]] * 7, amount=Decimal("1.00"), currency="EUR"
        )

    monkeypatch.setitem(contracts.tools, "sprawl", tool)
    return tool


def test_agents_words_mention_nobody_link_nowhere_and_break_no_block(
    slack, workspace, sprawl, acme, db
):
    proposed(reference=uuid4().hex, said=NASTY, fields={"<!here>": NASTY}, reason=NASTY)
    settle()

    message = only_message(slack)
    assert FakeSlack.mentions_in(message) == []
    assert FakeSlack.links_in(message) == []
    assert "<!channel> <@U0ALICE> @here" in FakeSlack.plain(message)  # and yet readable


def test_a_summary_of_3000_characters_and_200_fields_fit(slack, workspace, sprawl, acme, db):
    fields = {f"field {number} {'x' * 100}": "y" * 2000 for number in range(200)}
    proposed(reference="r" * 200, said="ä😀" * 1500, fields=fields, reason="z" * 9000)
    settle()

    message = only_message(slack)
    assert "(The rest is on the desk.)" in FakeSlack.plain(message)
    assert len(message.blocks) <= 50


def test_an_agent_cannot_crowd_a_warning_out(slack, workspace, sprawl, acme, db):
    """However much it says elsewhere: the warnings stay, and those left out are counted."""
    fields = {f"field {number}": "y" * 2000 for number in range(20)}
    row = proposed(reference="r" * 200, said="ä" * 3000, fields=fields, reason="z" * 9000)
    Transaction.objects.filter(pk=row.pk).update(
        warnings=[f"Warning number {number} {'w' * 900}" for number in range(8)]
    )
    settle()

    said = FakeSlack.plain(only_message(slack))
    assert all(f"Warning number {number} " in said for number in range(5))
    assert "3 more warnings on the desk." in said


def test_a_summary_that_does_not_fit_the_headline_is_whole_below_it(
    slack, workspace, sprawl, acme, db
):
    """Slack counts an emoji as two."""
    summary = "Pay " + "😀" * 100 + " to Ana"
    proposed(reference="r", said=summary, fields={}, reason="")
    settle()

    assert summary in FakeSlack.plain(only_message(slack))


@pytest.fixture
def wide(monkeypatch):
    """A tool with two hundred arguments."""
    names = [f"field_{number}" for number in range(200)]
    source = f"def wide({', '.join(f'{name}: str' for name in names)}): ..."
    scope: dict = {}
    exec(source, scope)
    contract = replace(contracts.tools["pay"].contract, operation_key="wide:{tenant}:{field_150}")
    monkeypatch.setitem(contracts.tools, "wide", contracts.Tool(scope["wide"], contract))
    return names


def test_of_200_fields_those_that_name_the_operation_come_first(
    slack, workspace, wide, a_transaction
):
    a_transaction("wide", **{name: f"value of {name}" for name in wide})
    settle()

    said = FakeSlack.plain(only_message(slack))
    assert "value of field_150" in said
    assert "192 more fields are on the desk." in said
    assert "value of field_7\n" not in said


any_text = some.text(max_size=400) | some.just(NASTY) | some.text("😀<&>`*\n", max_size=3500)


@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    summary=any_text,
    reason=any_text,
    warning=any_text,
    receipt=any_text,
    name=any_text,
    fields=some.dictionaries(some.text(max_size=300), any_text, max_size=12),
    payload=some.dictionaries(some.text(max_size=300), any_text, max_size=12),
    key=any_text,
    tool=some.sampled_from(["launch", "pay", "unknown"]),
    state=some.sampled_from(["prepared", "committed", "aborted", "in_doubt", "failed"]),
)
@pytest.mark.slow
def test_no_row_can_break_a_block(
    summary,
    reason,
    warning,
    receipt,
    name,
    fields,
    payload,
    key,
    tool,
    state,
    db,
    acme,
    workspace_row,
):
    """Every limit of Block Kit is kept by construction, and nobody is ever mentioned."""
    row = Transaction(
        tenant="acme",
        tool=tool,
        state=state,
        created_at=timezone.now(),
        action_summary=summary or "x",
        stated_reason=reason,
        warnings=[warning] * 9,
        payload=fields | payload,
        arguments=fields | {"rocket": key, "reference": key},
        receipt=receipt,
        ending_reason=reason,
        error=warning,
        proposed_by="agent:acme/x",
        proposed_by_name=name,
        risk_level="HIGH",
        required_approver="HUMAN",
        consequence_level="IRREVERSIBLE",
        intent_digest="0" * 64,
        expires_at=workspace_row.identities_at,
    )
    stored = SlackMessage(pk=1, workspace=workspace_row, transaction=row)

    shown = render(stored)

    refuse_bad_blocks(shown.blocks)
    assert FakeSlack.mentions_in(shown.blocks) == []
    assert FakeSlack.links_in(shown.blocks) == []


@pytest.fixture
def workspace_row(db):
    from django.utils import timezone

    from approvals.models import SlackWorkspace

    row = SlackWorkspace.objects.create(team_id="T0ACME", name="Acme", bot_user_id="U1")
    row.identities_at = timezone.now()
    return row


@given(some.text("a😀", max_size=300), some.integers(2, 150))
def test_a_shortened_text_is_as_long_as_slack_counts(words, most):
    short = shortened(words, most)

    assert len(short.encode("utf-16-le")) // 2 <= most
    assert short == words or short.endswith("…")


# --- where it goes ---------------------------------------------------------------------------


def test_what_passes_by_policy_is_not_posted(slack, workspace, a_transaction):
    a_transaction("write_note", text="hello")
    settle()

    assert slack.messages == []


def test_the_most_specific_route_wins(slack, workspace, team, a_transaction):
    """A route that names the tool beats one for any; then the higher risk."""
    for channel in ("C0PAY", "C0GRAVE", "C0OTHER"):
        slack.add_channel(team, channel)
    route(workspace, channel="C0PAY", tool="pay")
    route(workspace, channel="C0GRAVE", min_risk="CRITICAL")
    route(workspace, channel="C0OTHER", concerns="questions")

    a_transaction("pay")
    a_transaction("launch", rocket="Ariane")
    a_transaction("order", item="chair")
    settle()

    by_channel = {one.channel: one.text for one in slack.messages}
    assert set(by_channel) == {"C0PAY", "C0GRAVE", CHANNEL}
    assert by_channel["C0GRAVE"].startswith("Launch")
    assert by_channel[CHANNEL].startswith("Order")


def test_a_route_takes_the_id_of_a_channel(workspace):
    for wrong in ("#finance", "U0ALICE", "finance"):
        with pytest.raises(ValidationError, match="begins with C"):
            SlackRoute(workspace=workspace, tenant_id="acme", channel=wrong).full_clean()


def test_another_tenants_rows_go_nowhere(slack, workspace, globex, a_transaction):
    a_transaction("pay", tenant="globex")
    settle()

    assert slack.messages == []


def test_a_route_to_an_approver_is_a_direct_message(slack, workspace, slack_alice, a_transaction):
    SlackRoute.objects.all().delete()
    route(workspace, approver_id=workspace.identities.get().user_id)

    a_transaction()
    settle()

    assert only_message(slack).channel.startswith("D")


def test_a_route_has_one_target_and_a_tenant_that_the_workspace_serves(workspace, globex):
    with pytest.raises(ValidationError, match="Name a channel or an approver"):
        SlackRoute(workspace=workspace, tenant_id="acme").full_clean()
    with pytest.raises(ValidationError, match="does not serve this tenant"):
        SlackRoute(workspace=workspace, tenant=globex, channel="C1").full_clean()


def test_a_process_without_the_tokens_leaves_the_message_to_couriers(
    slack, workspace, a_payment, settings
):
    tokens = settings.SLACK_BOT_TOKENS
    settings.SLACK_BOT_TOKENS, settings.HAS_SLACK = [], True  # as a worker has it
    a_payment()
    settings.SLACK_BOT_TOKENS = tokens
    settle()

    assert only_message(slack).channel == CHANNEL


def test_without_slack_nothing_is_owed(a_payment, settings):
    settings.SLACK_BOT_TOKENS = []
    a_payment()

    assert not Delivery.objects.filter(channel="slack").exists()


def test_a_route_to_a_person_without_direct_messages_is_ignored(
    slack, workspace, slack_alice, bob_user, a_transaction
):
    """Not linked, or without a say in the tenant any more: then the next route."""
    route(workspace, tool="pay", approver=bob_user)
    a_transaction()
    settle()
    assert only_message(slack).channel == CHANNEL

    SlackRoute.objects.filter(tool="pay").update(approver=workspace.identities.get().user_id)
    Membership.objects.all().delete()
    a_transaction()
    settle()
    assert {one.channel for one in slack.messages} == {CHANNEL}


def test_a_route_is_only_for_people_of_its_tenant(workspace, carol_user):
    with pytest.raises(ValidationError, match="no role in this tenant"):
        SlackRoute(workspace=workspace, tenant_id="acme", approver=carol_user).full_clean()


# --- in time ---------------------------------------------------------------------------------


@pytest.fixture
def reminding(monkeypatch):
    tool = contracts.tools["pay"]
    with_reminder = replace(tool.contract, remind=timedelta(minutes=5))
    monkeypatch.setattr(tool, "contract", with_reminder)


def test_the_contract_says_when_to_remind(slack, workspace, reminding, posted):
    row, message = posted()
    owed = Delivery.objects.get(recipient__startswith="remind:")
    assert owed.next_attempt_at == row.expires_at - timedelta(minutes=5)
    assert thread_of(slack, message) == []

    make_due("remind:")
    settle()

    (note,) = thread_of(slack, message)
    assert note.startswith("Still waits for sign-off\n by somebody. It lapses")


def test_a_reminder_that_is_settled_says_so(slack, workspace, reminding, posted, bob):
    row, message = posted()
    make_due("remind:")
    settle()
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()

    assert thread_of(slack, message)[0] == "Rejected by Bob Tanaka on the desk"


def test_nobody_is_reminded_of_what_is_decided(slack, workspace, reminding, posted, bob):
    row, message = posted()
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")
    settle()
    said = thread_of(slack, message)

    make_due("remind:")
    settle()

    assert thread_of(slack, message) == said


def test_when_nobody_acts_the_next_channel_is_asked(
    slack, workspace, team, served, slack_alice, a_transaction
):
    slack.add_channel(team, "C0BOSSES")
    SlackRoute.objects.update(escalate_to="C0BOSSES", escalate_after=timedelta(minutes=3))
    row = a_transaction()
    settle()
    first = only_message(slack)
    owed = Delivery.objects.get(recipient__startswith="escalate:")
    assert abs(owed.next_attempt_at - row.created_at - timedelta(minutes=3)).total_seconds() < 5

    make_due("escalate:")
    settle()

    second = next(one for one in slack.messages if one.channel == "C0BOSSES")
    assert "Escalated: nobody acted in time" in FakeSlack.plain(second)
    assert "it was put before" in thread_of(slack, first)[0]
    slack.click(second, "approve", slack_alice)
    settle()
    for message in (first, second):
        assert "Approved by Alice Moreau in Slack" in FakeSlack.plain(message)


def test_what_was_asked_of_one_person_is_escalated_although_they_are_unlinked_since(
    slack, workspace, team, slack_alice, a_transaction
):
    slack.add_channel(team, "C0BOSSES")
    identity = workspace.identities.get()
    SlackRoute.objects.all().delete()
    route(
        workspace,
        approver=identity.user,
        escalate_to="C0BOSSES",
        escalate_after=timedelta(minutes=3),
    )
    a_transaction()
    settle()
    identity.delete()

    make_due("escalate:")
    settle()

    assert any(one.channel == "C0BOSSES" for one in slack.messages)


def test_a_reminder_waits_for_its_message(slack, workspace, reminding, a_transaction):
    slack.fail("*", times=1000, drop="before")
    a_transaction()
    settle()
    make_due("remind:")
    settle()
    assert Delivery.objects.get(recipient__startswith="remind:").state == "waiting"
    slack.heal()
    catch_up()

    assert thread_of(slack, only_message(slack))[0].startswith("Still waits for sign-off")


def test_what_is_decided_is_not_escalated(slack, workspace, team, a_transaction, bob):
    slack.add_channel(team, "C0BOSSES")
    SlackRoute.objects.update(escalate_to="C0BOSSES", escalate_after=timedelta(minutes=3))
    row = a_transaction()
    settle()
    coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")
    settle()

    make_due("escalate:")
    settle()

    assert not [one for one in slack.messages if one.channel == "C0BOSSES"]
    assert not SlackMessage.objects.filter(target="C0BOSSES").exists()
