"""Supervising agents: what waits for them, what they decide by, and what they leave to people."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection
from django.db.transaction import atomic
from django.urls import reverse

from approvals.models import Membership, Role
from examples import verify as foreign_verifier
from ledger import execution
from ledger.agents import enrolment, policy_documents
from ledger.contracts import tools
from ledger.errors import NotAllowed
from ledger.models import Agent, Event, PolicyDocument, Transaction, paragraphs_of
from ledger.proof.audit import decision_records, exports, verification
from ledger.proof.log import checkpoints
from ledger.states import State
from ledger.transactions import coordinator, why_not_to_act
from tests.conftest import propose
from tests.forgery import reseal

pytestmark = pytest.mark.django_db

POLICY = """---
max_amount: "50.00 EUR"
---
# Furniture

1. Chairs are fine.
2. Tables are fine when
   the reason says for whom.
### § 3. Beds
never.
4.2 Lamps.
5 days later is no number of a paragraph.
"""
HASH = hashlib.sha256(POLICY.encode()).hexdigest()


@pytest.fixture
def boss(supervisor, agent_client):
    return agent_client(supervisor, ["decide"])


@pytest.fixture
def second_boss(acme, agent_client):
    return agent_client(Agent.objects.create(tenant=acme, slug="second", name="Second"), ["decide"])


def keep_policy(client, text=POLICY, **body):
    return client.post("/policies", {"name": "Furniture", "version": "1", "text": text} | body)


def decide(client, row, verb="approve", **body):
    body = {"intent_digest": row.intent_digest, **body}
    return client.post(f"/transactions/{row.pk}/{verb}", body)


def keep(agent: Agent, keeper: str) -> None:
    Agent.objects.filter(pk=agent.pk).update(kept_by=keeper)


@pytest.fixture
def by_our_policy(monkeypatch):
    """The contract of the tool names the document."""
    tool = tools["order"]
    monkeypatch.setattr(tool, "contract", replace(tool.contract, required_policy=HASH))


# --- the policy of a contract -----------------------------------------------------------------


def test_an_approval_has_to_cite_the_policy_of_the_contract(by_our_policy, boss, second_boss):
    row = propose("order", item="chair")
    another = keep_policy(boss, "1. Everything is fine.\n", name="Anything").json()["sha256"]
    not_kept = decide(boss, row, policy={"sha256": HASH, "paragraphs": ["1"]})
    keep_policy(boss)

    without = decide(boss, row)
    by_another = decide(boss, row, policy={"sha256": another, "paragraphs": ["1"]})

    assert {answer.status_code for answer in (not_kept, without, by_another)} == {422}
    assert HASH in without.json()["detail"]
    assert not row.decisions.exists()
    approved = decide(boss, row, policy={"sha256": HASH, "paragraphs": ["1"]})
    assert (approved.json()["status"], approved.json()["required_policy"]) == ("approved", HASH)
    assert why_not_to_act(Transaction.objects.get(pk=row.pk)) == ""
    verification.verify()
    assert foreign_faults() == []


def test_an_operator_pins_the_policy_of_a_tenant(boss, tmp_path):
    file = tmp_path / "furniture.md"
    file.write_text(POLICY)
    before = propose("order", item="chair")
    call_command("pin_policy", tenant="acme", file=file)
    after, of_people = propose("order", item="table"), propose("pay")

    sealed = json.loads(Event.objects.get(kind="tenant_changed").details)
    assert sealed["edits"] == {"required_policy": ["", HASH]}
    assert [row.required_policy for row in (before, after, of_people)] == ["", HASH, ""]
    assert boss.get("/pending").json()["policies"][0]["text"] == POLICY
    assert decide(boss, before).status_code == 200
    assert decide(boss, after).status_code == 422
    assert decide(boss, after, policy={"sha256": HASH, "paragraphs": ["2"]}).status_code == 200

    call_command("pin_policy", tenant="acme", none=True)
    assert propose("order", item="bed").required_policy == ""


def test_the_waiting_list_brings_the_text_that_has_to_be_cited_once(by_our_policy, boss):
    for item in ("chair", "table"):
        propose("order", item=item)
    keep_policy(boss)
    keep_policy(boss, "1. Nothing to do with it.\n", name="Else")

    pending = boss.get("/pending").json()

    assert {item["required_policy"] for item in pending["items"]} == {HASH}
    (document,) = pending["policies"]
    assert (document["sha256"], document["text"]) == (HASH, POLICY)


def test_people_need_no_policy_nor_do_those_who_reject_or_pass_on(by_our_policy, boss, alice):
    rejected, passed_on = (propose("order", item=item) for item in ("chair", "table"))

    assert decide(boss, rejected, "reject", reason="No chair.").status_code == 200
    assert decide(boss, passed_on, "pass-on", reason="People know.").status_code == 200
    assert vote(coordinator.approve, passed_on, alice).state == State.APPROVED


def test_an_approval_that_cited_nothing_is_noticed_where_the_contract_names_a_policy(boss):
    row = propose("order", item="chair")
    assert decide(boss, row).json()["status"] == "approved"

    reseal(row.pk, required_policy=HASH)
    Transaction.objects.filter(pk=row.pk).update(required_policy=HASH)

    assert "does not cite the policy" in why_not_to_act(Transaction.objects.get(pk=row.pk))
    assert any("without the policy of the contract" in fault for fault in foreign_faults())


# --- the policy -------------------------------------------------------------------------------


def test_the_paragraphs_of_a_document_are_its_numbered_lines():
    assert paragraphs_of(POLICY) == [
        ("1", "1. Chairs are fine."),
        ("2", "2. Tables are fine when\n   the reason says for whom."),
        ("3", "### § 3. Beds\nnever."),
        ("4.2", "4.2 Lamps.\n5 days later is no number of a paragraph."),
    ]


def test_a_policy_is_kept_once_by_its_hash_and_read_back(boss):
    assert keep_policy(boss).status_code == 201
    assert keep_policy(boss).status_code == 200

    answer = boss.get(f"/policies/{HASH}").json()
    assert (answer["text"], answer["paragraphs"]) == (POLICY, ["1", "2", "3", "4.2"])
    assert PolicyDocument.objects.count() == 1


@pytest.mark.parametrize(
    ("text", "body", "says"),
    [
        ("No numbers here.", {}, "numbered paragraphs"),
        ("1. One.\n1. One again.", {}, "there twice"),
        ("1. Hidden \u202e text.", {}, "U+202E"),
        ("1. One.", {"name": "<script>"}, "letters, digits"),
        ("1. One.", {"name": "Furniture "}, "single spaces"),
        ("1. One.", {"name": "Fur  niture"}, "single spaces"),
        ("1. One.\n01. One again.", {}, "without a 0 first"),
        ("1. One.\n\uff11. One again.", {}, "digits 0 to 9"),
    ],
)
def test_a_document_that_could_mislead_is_refused(boss, text, body, says):
    answer = keep_policy(boss, text, **body)

    assert answer.status_code == 422
    assert says in answer.json()["detail"]


def test_one_version_has_one_text(boss):
    keep_policy(boss)

    answer = keep_policy(boss, "1. Everything is fine.", name="FURNITURE")

    assert answer.status_code == 409
    assert "another text" in answer.json()["detail"]


def test_the_database_itself_refuses_a_hash_of_another_text(boss):
    keep_policy(boss)
    columns = {"tenant": "acme", "added_by": "agent:acme/x", "added_by_name": "X"}

    with pytest.raises(IntegrityError, match="ledger_policy_hash_is_of_text"), atomic():
        PolicyDocument.objects.create(
            name="Beds", version="1", text="1. Beds.", sha256=HASH[::-1], **columns
        )
    text = "1. Näs \u20ac."
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(IntegrityError, match="ledger_policy_one_text_any_case"), atomic():
        PolicyDocument.objects.create(
            name="FURNITURE", version="1", text=text, sha256=sha256, **columns
        )


def test_one_agent_does_not_use_up_the_documents_of_its_tenant(boss, second_boss, monkeypatch):
    monkeypatch.setattr(policy_documents, "OF_ONE_MOST", 1)
    keep_policy(boss)

    refused = keep_policy(boss, "1. Another.", version="2")

    assert refused.status_code == 409
    assert "that is the most" in refused.json()["detail"]
    assert keep_policy(second_boss, "1. Another.", version="2").status_code == 201


def test_the_opening_ends_where_the_first_paragraph_begins():
    text = "+++\nnote = '1. Chairs.'\n+++\n# Furniture\n\n1. Chairs.\n"

    document = PolicyDocument(text=text)

    assert document.opening.endswith("# Furniture")


def test_the_database_itself_keeps_a_policy_as_it_was(boss):
    keep_policy(boss)

    with pytest.raises(IntegrityError, match="only ever appended"), atomic():
        PolicyDocument.objects.update(text="1. Everything is fine.")
    with pytest.raises(IntegrityError, match="only ever appended"), atomic():
        PolicyDocument.objects.all().delete()


def test_a_policy_of_another_tenant_is_neither_read_nor_cited(boss, stranger, agent_client):
    row = propose("order", item="chair")
    theirs = agent_client(stranger, ["decide"])
    keep_policy(theirs)

    assert boss.get(f"/policies/{HASH}").status_code == 404
    answer = decide(boss, row, policy={"sha256": HASH, "paragraphs": ["1"]})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert Transaction.objects.get(pk=row.pk).state == State.PREPARED


# --- what a decision was made by --------------------------------------------------------------


def test_a_decision_seals_the_policy_and_the_paragraphs(boss):
    row = propose("order", item="chair")
    keep_policy(boss)

    answer = decide(
        boss, row, reason="A chair.", policy={"sha256": HASH, "paragraphs": ["1", "1", "4.2"]}
    )

    policy = {"name": "Furniture", "version": "1", "sha256": HASH, "paragraphs": ["1", "4.2"]}
    assert answer.status_code == 200
    assert answer.json()["decisions"][0]["policy"] == policy
    approved = Transaction.objects.get(pk=row.pk).events.get(kind="approved")
    assert json.loads(approved.details)["policy"] == policy
    verification.verify()
    record = decision_records.of_transaction(row)
    assert record["summary"]["decisions"][0]["policy"] == policy


@pytest.mark.parametrize("verb", ["approve", "reject", "pass-on"])
def test_a_paragraph_that_is_not_in_the_document_decides_nothing(boss, verb):
    row = propose("order", item="chair")
    keep_policy(boss)

    answer = decide(boss, row, verb, reason="x", policy={"sha256": HASH, "paragraphs": ["1", "9"]})

    assert answer.status_code == 422
    assert "no paragraph 9" in answer.json()["detail"]
    assert not row.decisions.exists()


def test_a_policy_that_was_changed_in_the_row_of_a_decision_is_noticed(boss, forge):
    row = propose("order", item="chair")
    keep_policy(boss)
    decide(boss, row, policy={"sha256": HASH, "paragraphs": ["1"]})

    forge("""UPDATE ledger_decision SET policy = jsonb_set(policy, '{version}', '"2"')""")

    with pytest.raises(verification.Broken, match="is not what event"):
        verification.verify()


# --- passing on to people ---------------------------------------------------------------------


def test_what_is_passed_on_waits_for_a_person(boss, second_boss, alice):
    row = propose("order", item="bed")

    passed = decide(boss, row, "pass-on", reason="Nothing is said of beds.")

    assert (passed.status_code, passed.json()["status"]) == (200, "prepared")
    for client in (boss, second_boss):
        for verb in ("approve", "reject"):
            assert decide(client, row, verb, reason="Yes.").status_code == 409
    assert decide(second_boss, row, "pass-on", reason="Nor me.").status_code == 409
    approved = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    assert approved.state == State.APPROVED
    verification.verify()


def test_passing_on_again_changes_nothing(boss):
    row = propose("order", item="bed")

    first = decide(boss, row, "pass-on", reason="Beds.").json()
    again = decide(boss, row, "pass-on", reason="Other words.")

    assert again.status_code == 200
    assert again.json()["decisions"] == first["decisions"]
    assert row.events.filter(kind="passed_on").count() == 1


def test_only_what_a_contract_leaves_to_a_supervisor_is_passed_on(boss, alice):
    payment, order = propose("pay"), propose("order", item="bed")

    assert decide(boss, payment, "pass-on", reason="x").status_code == 403
    with pytest.raises(NotAllowed, match="Only a supervising agent"):
        coordinator.pass_on(order.pk, digest=order.intent_digest, by=alice, via="web", reason="x")


def test_once_passed_on_earlier_approvals_of_agents_do_not_count(
    supervisor, boss, second_boss, alice, bob
):
    row = propose("furnish", room="lobby")
    keep(supervisor, "user:1")
    assert decide(boss, row).json()["status"] == "prepared"

    assert decide(second_boss, row, "pass-on", reason="It is a lot.").status_code == 200

    one = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    two = coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")
    assert (one.state, two.state) == (State.PREPARED, State.APPROVED)
    verification.verify()
    assert foreign_faults() == []


def test_a_forged_approval_after_it_was_passed_on_carries_nothing_out(boss, second_boss, forge):
    row = propose("order", item="bed")
    decide(boss, row, "pass-on", reason="Beds.")
    other = propose("order", item="chair")
    decide(second_boss, other)
    approved = other.events.get(kind="approved")

    with connection.cursor() as cursor:  # as the application's own role can
        cursor.execute(
            """INSERT INTO ledger_event (subject, transaction_id, tenant, kind, from_state,
                to_state, principal, principal_name, via, reason, reason_digest, details)
            SELECT %s, %s, tenant, kind, from_state, to_state, principal, principal_name, via,
                reason, reason_digest, %s FROM ledger_event WHERE id = %s""",
            [
                row.pk,
                row.pk,
                approved.details.replace(other.intent_digest, row.intent_digest),
                approved.pk,
            ],
        )
    Transaction.objects.filter(pk=row.pk).update(state=State.APPROVED)

    with pytest.raises(verification.Broken, match="does not accept a decision of agent"):
        verification.verify()
    assert any("takes no vote of agent" in fault for fault in foreign_faults())


def foreign_faults() -> list[str]:
    """What the second verifier, which shares no code, finds in an export."""
    checkpoints.make()
    keys = [bytes.fromhex(key) for key in checkpoints.own_public_keys()]
    return list(foreign_verifier.verify(list(exports.export_lines()), keys))


# --- one keeper, one vote ---------------------------------------------------------------------


def test_two_supervisors_of_one_keeper_are_one_vote(supervisor, boss, second_boss):
    row = propose("furnish", room="lobby")
    for agent in (supervisor, second_boss.agent):
        keep(agent, "user:7")
    assert decide(boss, row).json()["status"] == "prepared"

    second = decide(second_boss, row)

    assert second.status_code == 403
    assert "together they have one vote" in second.json()["detail"]


def test_two_supervisors_of_nobody_are_one_vote(boss, second_boss):
    row = propose("furnish", room="lobby")
    decide(boss, row)

    assert decide(second_boss, row).status_code == 403


def test_two_supervisors_of_two_keepers_are_two_votes(supervisor, boss, second_boss):
    row = propose("furnish", room="lobby")
    keep(supervisor, "user:7")
    keep(second_boss.agent, "user:8")

    decide(boss, row)

    assert decide(second_boss, row).json()["status"] == "approved"
    verification.verify()
    assert foreign_faults() == []


def test_a_supervisor_and_its_keeper_are_one_vote(supervisor, boss, alice):
    row = propose("furnish", room="lobby")
    keep(supervisor, str(alice))
    decide(boss, row)

    with pytest.raises(NotAllowed, match="one vote"):
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")


def test_a_second_vote_of_one_keeper_in_the_log_carries_nothing_out(
    supervisor, boss, second_boss, forge
):
    row = propose("furnish", room="lobby")
    keep(supervisor, "user:7")
    keep(second_boss.agent, "user:8")
    decide(boss, row)
    decide(second_boss, row)

    forge("""UPDATE ledger_event SET details = replace(details, 'user:8', 'user:7')""")

    with pytest.raises(verification.Broken, match="not enough approvals"):
        verification.verify()
    assert any("not enough approvals" in fault for fault in foreign_faults())


# --- what waits -------------------------------------------------------------------------------


def pending_ids(client, query=""):
    return [item["transaction_id"] for item in client.get(f"/pending{query}").json()["items"]]


def test_the_pending_list_is_what_this_supervisor_may_decide_on(
    boss, second_boss, supervisor, stranger
):
    waits = propose("order", item="chair")
    decided, passed_on = propose("order", item="table"), propose("order", item="bed")
    propose("pay")  # for people
    propose("order", agent=supervisor.slug, item="own")
    propose("order", tenant="globex", agent=stranger.slug, item="of another tenant")
    decide(second_boss, decided)
    decide(second_boss, passed_on, "pass-on", reason="Beds.")

    assert pending_ids(boss) == [str(waits.pk)]


def test_the_pending_list_leaves_out_what_the_voter_has_decided_on(
    supervisor, boss, second_boss, alice
):
    by_agent, by_keeper = propose("furnish", room="lobby"), propose("furnish", room="office")
    decide(second_boss, by_agent)
    assert pending_ids(boss) == [str(by_keeper.pk)]  # neither has a keeper: they are one voter

    keep(supervisor, str(alice))
    assert set(pending_ids(boss)) == {str(by_agent.pk), str(by_keeper.pk)}
    coordinator.approve(by_keeper.pk, digest=by_keeper.intent_digest, by=alice, via="web")

    assert pending_ids(boss) == [str(by_agent.pk)]


def test_who_passed_it_on_and_then_decides_is_told_so(boss):
    row = propose("order", item="bed")
    decide(boss, row, "pass-on", reason="Beds.")

    answer = decide(boss, row)

    assert answer.status_code == 409
    assert answer.json()["detail"] == "You have passed it on to people."


def test_an_entry_of_the_pending_list_has_all_that_is_needed_to_judge(boss):
    row = propose("order", item="chair")

    (item,) = boss.get("/pending").json()["items"]

    assert item["intent_digest"] == row.intent_digest
    assert item["arguments"] == {"item": "chair"}
    assert item["contract"]["required_approver"] == "SUPERVISOR"
    assert {"stated_reason", "risk_level", "warnings", "financial_impact"} <= set(item)


def test_the_pending_list_has_pages_the_most_urgent_first(boss):
    rows = [propose("order", item=str(number)) for number in range(3)]
    ids = [str(row.pk) for row in sorted(rows, key=lambda row: (row.expires_at, row.pk))]

    assert pending_ids(boss, "?limit=2") == ids[:2]
    assert boss.get("/pending?limit=2").json()["has_more"] is True
    assert pending_ids(boss, f"?limit=2&after={ids[1]}") == ids[2:]
    assert boss.get(f"/pending?after={uuid4()}").status_code == 404


def test_only_a_supervisor_reads_the_pending_list(as_helpdesk):
    assert as_helpdesk.get("/pending").status_code == 403
    assert as_helpdesk.get("/pending?wait=30").status_code == 403


# --- on the desk ------------------------------------------------------------------------------


def test_people_see_who_passed_it_on_and_what_the_policy_says(boss, as_alice, as_carol):
    row = propose("order", item="bed")
    keep_policy(boss, POLICY.replace("never", "never <script>alert(1)</script>"))
    sha256 = PolicyDocument.objects.get().sha256
    cites = {"sha256": sha256, "paragraphs": ["3", "4.2"]}
    decide(boss, row, "pass-on", reason="A <b>bed</b>.", policy=cites)

    item = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    address = f"/policies/acme/{sha256}/?cited=3%2C4.2"
    page = as_alice.get(address).content.decode()

    assert "leaves it to people" in item
    assert "Passed on to people" in item
    assert "A &lt;b&gt;bed&lt;/b&gt;." in item
    assert f"{address}#p-3" in item
    assert "never &lt;script&gt;" in page
    assert page.count("paragraph cited") == 2
    assert as_carol.get(address).status_code == 404
    assert as_alice.get("/policies/acme/none/").status_code == 404


def test_a_keeper_is_told_on_the_desk_that_its_agent_has_voted(supervisor, boss, alice, as_alice):
    row = propose("furnish", room="lobby")
    keep(supervisor, str(alice))
    decide(boss, row)

    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    answer = as_alice.post(
        f"/transactions/{row.pk}/approve", {"digest": row.intent_digest, "typed": "lobby"}
    )

    assert "together you have one vote" in page
    assert answer.status_code == 403
    assert Transaction.objects.get(pk=row.pk).state == State.PREPARED


# --- the keeper of the proposer ---------------------------------------------------------------


@pytest.fixture
def kept_by_alice(helpdesk, alice):
    """The agent that proposes, with a keeper who is an approver too."""
    keep(helpdesk, str(alice))
    return helpdesk


def let_the_keeper_sign(monkeypatch, name):
    tool = tools[name]
    monkeypatch.setattr(tool, "contract", replace(tool.contract, keeper_may_sign=True))


def vote(verb, row, by):
    return verb(row.pk, digest=row.intent_digest, by=by, via="web", reason="Seen.")


def test_the_keeper_of_an_agent_approves_nothing_that_it_proposed(kept_by_alice, alice, bob):
    row = propose("pay")

    with pytest.raises(NotAllowed, match="You keep the agent that proposed it"):
        vote(coordinator.approve, row, alice)

    assert vote(coordinator.approve, row, bob).state == State.APPROVED
    approved = json.loads(row.events.get(kind="approved").details)
    assert approved["proposer_kept_by"] == [str(alice)]
    verification.verify()
    assert foreign_faults() == []


def test_the_keeper_of_an_agent_may_stop_it_by_rejecting(kept_by_alice, as_alice):
    row = propose("pay")
    page = as_alice.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    assert f'data-open="reject-{row.pk}"' in page
    assert f'id="reject-{row.pk}"' in page
    assert f'id="approve-{row.pk}"' not in page

    answer = as_alice.post(
        reverse("desk:transaction-reject", args=[row.pk]),
        {"digest": row.intent_digest, "reason": "It is mine, and wrong."},
    )

    row.refresh_from_db()
    assert (answer.status_code, row.ending) == (302, "rejected")
    verification.verify()
    assert foreign_faults() == []


def test_the_keeper_of_an_agent_settles_and_undoes_nothing_that_it_proposed(
    kept_by_alice, alice, bob, forge
):
    row = propose("pay")
    vote(coordinator.approve, row, bob)
    execution.commit(row.pk)

    with pytest.raises(NotAllowed, match="You keep the agent that proposed it"):
        coordinator.compensate(row.pk, by=alice, via="web", reason="Undo it.")
    coordinator.compensate(row.pk, by=bob, via="web", reason="Undo it.")

    verification.verify()
    assert foreign_faults() == []
    forge(f"UPDATE ledger_event SET principal = '{alice}' WHERE kind = 'compensation_started'")
    reseal(row.pk)
    assert any("by who keeps the agent that proposed it" in fault for fault in foreign_faults())


def test_an_operator_is_offered_nothing_for_what_an_agent_proposed_that_they_keep(
    kept_by_alice, alice_user, as_alice, bob
):
    Membership.objects.create(user=alice_user, tenant_id="acme", role=Role.OPERATOR)
    row = propose("pay")
    vote(coordinator.approve, row, bob)
    execution.commit(row.pk)

    def page():
        return as_alice.get(reverse("desk:transaction", args=[row.pk])).content.decode()

    assert f'data-open="compensate-{row.pk}"' not in page()
    keep(kept_by_alice, "")
    assert f'data-open="compensate-{row.pk}"' in page()


def test_no_supervisor_of_the_same_keeper_decides_on_it_or_sees_it_wait(
    kept_by_alice, alice, supervisor, boss, second_boss
):
    row = propose("order", item="chair")
    keep(supervisor, str(alice))
    keep(second_boss.agent, "user:70000")

    assert decide(boss, row).status_code == 403
    assert boss.get("/pending").json()["items"] == []
    assert decide(second_boss, row).json()["status"] == "approved"


def test_a_supervisor_without_a_keeper_may_be_of_the_same_and_decides_on_nothing_kept(
    kept_by_alice, boss
):
    row = propose("order", item="chair")

    refused = decide(boss, row)

    assert (refused.status_code, boss.get("/pending").json()["items"]) == (403, [])
    assert "Nobody is named who keeps you" in refused.json()["detail"]


def test_who_kept_the_agent_when_it_proposed_does_not_decide_although_somebody_else_does_now(
    kept_by_alice, alice, bob, as_alice, forge
):
    row = propose("pay")
    keep(kept_by_alice, "")
    kept_by_alice.refresh_from_db()
    enrolment.was_changed(kept_by_alice, {"kept_by": [str(alice), ""]}, by=bob, via="admin")

    with pytest.raises(NotAllowed, match="You keep the agent that proposed it"):
        vote(coordinator.approve, row, alice)
    page = as_alice.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    assert "You keep the agent that proposed it" in page

    approved = vote(coordinator.approve, row, bob)
    assert why_not_to_act(approved) == ""
    forge(f"UPDATE ledger_event SET principal = '{alice}' WHERE kind = 'approved'")
    reseal(row.pk)
    assert any("who keeps the agent that proposed it" in fault for fault in foreign_faults())


def test_a_contract_may_let_the_keeper_sign_which_is_sealed(kept_by_alice, alice, monkeypatch):
    let_the_keeper_sign(monkeypatch, "pay")
    row = propose("pay")

    approved = vote(coordinator.approve, row, alice)

    assert (approved.state, why_not_to_act(approved)) == (State.APPROVED, "")
    verification.verify()
    assert foreign_faults() == []


def test_a_vote_of_the_keeper_that_the_contract_never_allowed_is_noticed(
    kept_by_alice, alice, monkeypatch
):
    let_the_keeper_sign(monkeypatch, "pay")
    row = propose("pay")
    approved = vote(coordinator.approve, row, alice)

    reseal(row.pk, keeper_may_sign=False)

    assert "who keeps the agent that proposed it" in why_not_to_act(approved)
    assert any("who keeps the agent that proposed it" in fault for fault in foreign_faults())
