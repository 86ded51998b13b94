"""Operators look at tasks and questions of their own tenants in the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from tests.a2a.test_remotes import FastAgent, fast_agent, until_it_is  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def as_operator(olga_user):
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(content_type__app_label="a2a"))
    client = Client()
    client.force_login(olga_user)
    return client


def test_every_page_opens(as_operator, a_claimed_task):
    task = a_claimed_task()

    for page in ("task", "question"):
        assert as_operator.get(f"/admin/a2a/{page}/").status_code == 200
    page = as_operator.get(f"/admin/a2a/task/{task.pk}/change/").content.decode()
    assert f'href="/tasks/{task.pk}/">On the desk</a>' in page
    found = as_operator.get(f"/admin/a2a/task/?q={task.pk}").content.decode()
    assert task.short_id in found
