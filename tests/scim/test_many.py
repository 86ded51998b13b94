"""A directory of ten thousand people."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from approvals.models import Membership
from approvals.scim.models import Entry

MANY = 10_000
QUERIES = 40  # of one request, however many people there are


@pytest.mark.slow
def test_ten_thousand_are_listed_in_pages_and_one_more_joins_their_group(
    directory, django_assert_max_num_queries
):
    users = [User(username=f"person{number}", password="!") for number in range(MANY)]
    people = User.objects.bulk_create(users)
    Entry.objects.bulk_create([Entry(user=each, groups=["Deciders"]) for each in people])

    pages = []
    while not pages or pages[-1]:
        with django_assert_max_num_queries(QUERIES):
            listed = directory.ask("GET", "Users", startIndex=1 + sum(map(len, pages)), count=1_000)
        pages.append(listed["Resources"])
    seen = [each["id"] for page in pages for each in page]
    key = directory.make("one.more")
    with django_assert_max_num_queries(QUERIES):
        status = directory.add("Deciders", key)

    assert len(set(seen)) == len(seen) == MANY
    assert status == 200
    assert Membership.objects.filter(user=key, role="approver").exists()
