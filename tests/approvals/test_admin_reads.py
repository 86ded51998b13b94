"""What the admin and RQ's pages let be read, and by whom."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.exceptions import FieldDoesNotExist
from django.test import Client
from django.urls import reverse
from django_rq.urls import urlpatterns as queue_pages

from tests.conftest import signed_in

pytestmark = pytest.mark.django_db

ADDRESSES = {
    "queue_index": 0,
    "scheduler_index": 0,
    "connection_index": 0,
    "job_id": "x",
    "result_id": "x",
    "key": "x",
    "scheduler_name": "x",
    "cron_job_name": "x",
}
PAGES = [
    reverse(
        f"django_rq:{one.name}",
        kwargs={name: value for name, value in ADDRESSES.items() if name in one.pattern.converters},
    )
    for one in queue_pages
]


@pytest.fixture
def as_staff(olga_user) -> Client:
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.all())
    return signed_in(olga_user)


@pytest.fixture
def as_root(db) -> Client:
    return signed_in(User.objects.create_superuser("root", password="root"))


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_queues_are_for_superusers_only(client, as_staff, as_root, method):
    for page in PAGES:
        assert getattr(client, method)(page).status_code == 302, page
        assert getattr(as_staff, method)(page).status_code == 403, page
        assert getattr(as_root, method)(page).status_code < 500, page


def test_the_queues_are_nowhere_else_in_the_admin(as_root):
    assert "django_rq" not in {model._meta.app_label for model in admin.site._registry}


def test_djangos_short_cut_from_a_row_to_its_page_is_not_there(as_root):
    for address in ("1/1/", "7/abc/", "x"):
        assert as_root.get(f"/admin/r/{address}").status_code == 404


def _unoffered_lookups(model_admin) -> list[str]:
    """Every column, and every column of a row that it points to, in the ways that read out text."""
    model, offered = model_admin.model, set()
    for one in model_admin.list_filter:
        offered.add(one[0] if isinstance(one, tuple) else one)
    found = []
    for field in model._meta.get_fields():
        if field.name not in offered and getattr(field, "column", None):
            found += [f"{field.name}__startswith", f"{field.name}__gte"]
        if field.related_model is not None:
            with suppress(FieldDoesNotExist):
                found += [
                    f"{field.name}__{far.name}__startswith"
                    for far in field.related_model._meta.concrete_fields
                    if far.get_internal_type() in {"CharField", "TextField"}
                ]
    return found


@pytest.mark.parametrize("model", list(admin.site._registry), ids=lambda model: model.__name__)
def test_the_address_bar_reads_no_column_out_of_any_list(as_root, model):
    there = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    lookups = _unoffered_lookups(admin.site._registry[model])
    assert lookups

    for lookup in lookups:
        answer = as_root.get(there, {lookup: "a"})
        assert answer.status_code in {302, 400}, lookup  # 302: back to the list without it


@pytest.mark.parametrize("model", list(admin.site._registry), ids=lambda model: model.__name__)
def test_every_filter_that_a_list_offers_works(as_root, model, acme):
    there = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    page = as_root.get(there)

    for one in page.context["cl"].filter_specs:
        for choice in one.choices(page.context["cl"]):
            assert as_root.get(there + choice["query_string"]).status_code == 200
