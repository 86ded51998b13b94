"""``RECORD_RELEASE=0.1.0 pytest -n 0 tests/upgrade/test_record.py``: keeps a database of this code.

It is skipped otherwise: the tests of upgrades begin with what was recorded when a release was made.
"""

from __future__ import annotations

import os

import pytest
from django.db import connection

from a2a.models import Task
from ledger import execution
from ledger.models import AgentToken, Scope, Transaction
from ledger.proof.log import checkpoints
from ledger.states import State
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.grants.conftest import activated, allowed, olga, otto
from tests.rules.conftest import LARGE_TAKE_TWO
from tests.upgrade.releases import Release, record

__all__ = ["activated", "allowed", "olga", "otto"]

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.skipif("RECORD_RELEASE" not in os.environ, reason="records a release"),
]


def test_a_database_in_which_much_has_happened_is_recorded(
    acme, helpdesk, a_task, alice, bob_user, vera_user, activated, allowed
):
    activated(LARGE_TAKE_TWO)
    allowed()
    committed, rejected, _waiting = propose(), propose(), propose()
    coordinator.approve(committed.pk, digest=committed.intent_digest, by=alice, via="web")
    execution.commit(committed.pk)
    coordinator.reject(
        rejected.pk, digest=rejected.intent_digest, by=alice, via="web", reason="Not ours."
    )
    execution.roll_back(rejected.pk)
    a_task()
    checkpoints.make()
    _row, token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE])
    by_state = {str(row.pk): row.state for row in Transaction.objects.order_by("pk")}

    record(
        os.environ["RECORD_RELEASE"],
        os.environ["DATABASE_URL"].replace("/assent?", f"/{connection.settings_dict['NAME']}?"),
        {"token": token, "alice": alice.id, "transactions": by_state},
    )

    assert set(by_state.values()) == {State.COMMITTED, State.ABORTED, State.PREPARED}
    assert Task.objects.exists()
    assert Release(os.environ["RECORD_RELEASE"]).facts["token"] == token
