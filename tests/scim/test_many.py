"""A directory of ten thousand people."""

from __future__ import annotations

import time

import pytest
from django.contrib.auth.models import User

from approvals.models import Membership
from approvals.scim.models import Entry

MANY = 10_000
PAGE_WITHIN_S, CHANGE_WITHIN_S = 1.0, 10.0


@pytest.mark.slow
def test_ten_thousand_are_listed_in_pages_and_one_more_joins_their_group(directory):
    users = [User(username=f"person{number}", password="!") for number in range(MANY)]
    people = User.objects.bulk_create(users)
    Entry.objects.bulk_create([Entry(user=each, groups=["Deciders"]) for each in people])

    began, seen = time.monotonic(), []
    while page := directory.ask("GET", "Users", startIndex=len(seen) + 1, count=1_000)["Resources"]:
        seen += [each["id"] for each in page]
    a_page = (time.monotonic() - began) / (MANY / 200)
    key = directory.make("one.more")
    began = time.monotonic()
    status = directory.add("Deciders", key)
    change = time.monotonic() - began

    assert len(set(seen)) == len(seen) == MANY
    assert status == 200
    assert Membership.objects.filter(user=key, role="approver").exists()
    assert a_page < PAGE_WITHIN_S
    assert change < CHANGE_WITHIN_S
