"""A tool that runs elsewhere plans again beside what it holds, and says if a plan is still true."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from ledger import execution
from ledger.errors import PlanFailed
from ledger.models import Transaction
from ledger.states import Ending, State
from ledger.tools.http import published
from ledger.tools.manifests import HttpManifest, ManifestRefused
from ledger.tools.registrations import manifest_changes
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.http_tools.broken_service import CONTRACT
from tests.http_tools.conftest import manifest

pytestmark = pytest.mark.django_db(transaction=True)

ROUTES = ["plan", "replan", "still_valid", "rollback"]
DONE = (200, {"receipt": {"id": "re_7"}})


def planned(summary, hold):
    return 200, {"plan": {"summary": summary, "held": {"hold": hold}}}


@pytest.fixture
def waiting(service, registered):
    """A proposal whose plan holds something at the service."""
    registered(routes=ROUTES, contract={"plan_max_age_s": 300, "editable": ["amount"]})
    service.answers |= {
        "plan": planned("Refund 482.00", "first"),
        "replan": planned("Refund 48.20", "second"),
        "still_valid": (200, {"still_valid": True}),
        "rollback": (200, {}),
        "commit": DONE,
    }
    return propose("refund_invoice", invoice="7", amount=482)


def approved(row, by):
    coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")
    return row


def committed(row):
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


def corrected(row, by):
    return coordinator.revise(row.pk, {"amount": 48.2}, digest=row.intent_digest, by=by, via="web")


def test_a_corrected_proposal_is_planned_beside_the_old_hold_which_is_released_then(
    service, waiting, alice
):
    row = corrected(waiting, alice)

    assert service.verbs() == ["plan", "replan"]
    assert service.asked[-1].body["held"] == {"hold": "first"}
    assert service.asked[-1].body["arguments"]["amount"] == 48.2
    assert (row.action_summary, row.held) == ("Refund 48.20", {"hold": "second"})

    former = Transaction.objects.get(ending=Ending.ABANDONED)
    execution.roll_back(former.pk)

    rolled_back = service.asked[-1].body
    assert rolled_back["held"] == {"hold": "first"}
    assert rolled_back["operation_key"].startswith(f"{row.operation_key}#")


def test_it_is_asked_if_it_is_still_true_before_it_is_carried_out(service, waiting, alice):
    row = committed(approved(waiting, alice))

    assert (row.state, row.receipt) == (State.COMMITTED, "re_7")
    assert service.verbs() == ["plan", "still_valid", "commit"]
    assert service.asked[1].body["held"] == {"hold": "first"}


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}),
        (200, {"still_valid": "yes"}),
        (202, {}),
        (409, {"type": "conflict"}),
        (503, {"type": "nothing-happened"}),
    ],
)
def test_whatever_does_not_say_yes_or_no_is_asked_again(service, waiting, alice, answer):
    service.answers["still_valid"] = answer

    row = committed(approved(waiting, alice))

    assert row.state == State.APPROVED
    assert row.error.startswith("Before it is carried out:")
    assert service.verbs() == ["plan", "still_valid"]


def test_what_is_not_true_any_more_is_planned_and_asked_again(service, waiting, alice):
    service.answers["still_valid"] = (200, {"still_valid": False})

    row = committed(approved(waiting, alice))

    assert (row.state, row.revision) == (State.PREPARED, 2)
    assert service.verbs() == ["plan", "still_valid", "replan"]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ((503, {"type": "nothing-happened"}), State.APPROVED),
        ((422, {"type": "nothing-happened", "detail": "Closed."}), State.ROLLING_BACK),
    ],
)
def test_only_a_refusal_for_good_ends_what_was_signed_off(service, waiting, alice, answer, state):
    approved(waiting, alice)
    age = timedelta(minutes=6)
    Transaction.objects.update(true_until=F("true_until") - age, planned_at=F("planned_at") - age)
    service.answers["replan"] = answer

    assert committed(waiting).state == state


def test_who_corrects_it_is_told_that_the_service_cannot_plan_just_now(service, waiting, alice):
    service.answers["replan"] = (503, {"type": "nothing-happened"})

    with pytest.raises(PlanFailed):
        corrected(waiting, alice)

    waiting.refresh_from_db()
    assert (waiting.state, waiting.revision) == (State.PREPARED, 1)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"contract": {"editable": ["invoice"]}}, "E022"),
        ({"contract": {"touches": ["invoice:{nothing}"]}}, "E023"),
        ({"contract": {"plan_max_age_s": 60}}, "E024"),
        ({"contract": {"touches": ["invoice:{invoice}"]}}, "E024"),
        ({"routes": ["plan", "still_valid", "rollback"]}, "E024"),
    ],
)
def test_terms_that_cannot_be_kept_are_refused(acme, tmp_path, changes, code):
    file = tmp_path / "tools.json"
    value = manifest("https://payments.example", **{"routes": ["plan", "rollback"], **changes})
    file.write_text(HttpManifest.read(value).model_dump_json())
    content = f'{{"tenant": "acme", "tools": [{file.read_text()}]}}'
    file.write_text(content)

    with pytest.raises(CommandError, match=code):
        call_command("tools", "apply", str(file))


def test_a_second_plan_needs_a_first_and_no_age_is_zero():
    for changes in ({"routes": ["replan"]}, {"contract": {"plan_max_age_s": 0}}):
        with pytest.raises(ManifestRefused):
            HttpManifest.read(manifest("https://payments.example", **changes))


def test_a_manifest_from_before_keeps_its_hash():
    before = HttpManifest.read(manifest("https://payments.example")).as_json()

    assert not {"editable", "plan_max_age_s", "touches"} & set(before["contract"])


@pytest.mark.parametrize(
    ("before", "after", "loosened"),
    [
        ({"editable": ["amount"]}, {}, ["contract.editable"]),
        ({"editable": ["amount"]}, {"editable": ["amount", "note"]}, ["contract.editable"]),
        ({"editable": ["amount"]}, {"editable": []}, []),
        ({"plan_max_age_s": 60}, {"plan_max_age_s": 61}, ["contract.plan_max_age_s"]),
        ({"plan_max_age_s": 60}, {}, ["contract.plan_max_age_s"]),
        ({"plan_max_age_s": 60}, {"plan_max_age_s": 59}, []),
        ({"touches": ["i:{invoice}"]}, {}, ["contract.touches"]),
        ({}, {"touches": ["i:{invoice}"], "editable": []}, []),
    ],
)
def test_what_lets_more_be_changed_or_less_be_looked_at_is_looser(before, after, loosened):
    old, new = (
        HttpManifest.read(manifest("https://payments.example", contract=terms))
        for terms in (before, after)
    )
    assert manifest_changes.loosened(old, new) == loosened


def test_a_contract_that_was_published_before_promises_neither():
    promises = {
        name: value
        for name, value in CONTRACT["promises"].items()
        if name not in {"replan", "still_valid"}
    }
    contract = {**CONTRACT, "promises": promises}
    relies = HttpManifest.read(manifest("https://payments.example", routes=ROUTES))

    published.check(contract, "refund_invoice")

    assert {"replan", "still_valid"} <= {*published.not_promised(relies, contract)}
