"""Where people sign with a passkey, operators sign what they say became of it."""

from __future__ import annotations

import pytest

from ledger import execution
from ledger.models import Transaction
from ledger.states import State
from tests.forgery import rewrite
from tests.rules.test_pages import text_of
from tests.rules.test_proof import faults_of_both
from tests.signing.conftest import SIGNED, sign

pytestmark = pytest.mark.django_db


@pytest.fixture
def done(as_alice, alice_user, activated, refund, has_key):
    """A refund that was signed and carried out."""
    activated(SIGNED)
    row = refund()
    sign(as_alice, row, has_key(alice_user))
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == State.COMMITTED
    return row


def compensated(client, row, key=None, **said):
    """As the page sends it, signed with this key."""
    said = {"reason": "It was the wrong customer.", **said}
    if key is not None:
        options = client.post(f"/transactions/{row.pk}/sign", {"outcome": "compensate"}).json()
        said |= {"credential": key.use(options), "nonce": options["nonce"]}
    return client.post(f"/transactions/{row.pk}/compensate", said, headers={"HX-Request": "true"})


def word_of(row: Transaction):
    return row.events.get(kind="compensation_started")


def test_an_operator_signs_a_compensation(as_olga, olga_user, done, has_key):
    key = has_key(olga_user)

    refused = compensated(as_olga, done)
    done.refresh_from_db()
    assert (refused.status_code, done.state) == (403, State.COMMITTED)
    assert "It has to be signed with a passkey." in text_of(refused)

    assert compensated(as_olga, done, key).status_code == 200
    done.refresh_from_db()
    assert done.state == State.COMPENSATING
    assert '"assertion"' in word_of(done).details
    assert faults_of_both() == ([], [])


def test_an_operator_without_a_key_is_told_so_before_writing_a_reason(as_olga, done):
    shown = as_olga.get(f"/transactions/{done.pk}/").content.decode()

    assert "Add one; two operators let it sign." in shown
    assert f'data-open="compensate-{done.pk}"' not in shown
    assert f'<dialog id="compensate-{done.pk}"' not in shown


def test_without_a_key_an_operator_declines_what_another_proposed(as_olga, done, otto):
    Transaction.objects.filter(pk=done.pk).update(
        state=State.IN_DOUBT,
        settlement={
            "outcome": "nothing_happened",
            "receipt": "",
            "reason": "Looked it up.",
            "by": str(otto),
            "by_name": "Otto",
        },
    )

    shown = as_olga.get(f"/transactions/{done.pk}/").content.decode()

    assert "Add one; two operators let it sign." in shown
    assert 'value="decline"' in shown
    assert 'value="nothing_happened"' not in shown
    assert "data-sign=" not in shown


def test_a_signed_word_counts_for_no_other_outcome(as_olga, olga_user, done, has_key):
    key = has_key(olga_user)
    options = as_olga.post(f"/transactions/{done.pk}/sign", {"outcome": "nothing_happened"}).json()

    answer = compensated(as_olga, done, credential=key.use(options), nonce=options["nonce"])

    assert answer.status_code == 422
    assert "or something else was." in text_of(answer)


def test_both_verifiers_name_a_word_that_nobody_signed(as_olga, olga_user, done, has_key):
    compensated(as_olga, done, has_key(olga_user))
    rewrite(word_of(done), assertion=None)

    for faults in faults_of_both():
        assert any("not signed with a passkey" in fault for fault in faults), faults
