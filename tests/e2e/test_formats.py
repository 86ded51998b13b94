"""The dialog understands an amount as its reader's formats write it, as the server does."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from approvals.desk.strength import confirmations
from approvals.http.preferences import formats_of
from approvals.presentation import amounts
from approvals.web.account.account import FORMATS
from tests.e2e.test_item import is_confirmed

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user"),
]


def test_the_dialog_and_the_server_take_an_amount_in_each_of_the_formats(desk_of, ask):
    alice = desk_of("alice")

    for formats in FORMATS:
        for amount, currency, precision in (("1234.5", "CHF", 2), ("1234", "JPY", 0)):
            with formats_of(formats):
                shown = amounts.amount_written(Decimal(amount), currency)
                signs = confirmations.signs_of(currency)
                for typed in (shown, shown.replace("2", "3")):
                    told = {"amount": amount, "precision": precision, "signs": signs}
                    here = confirmations.is_amount(typed, Decimal(amount), currency)
                    case = json.dumps([formats, typed])
                    assert is_confirmed(alice, typed, told) is here is (typed == shown), case
