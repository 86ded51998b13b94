"""The tree of a task: its revisions and what was delegated, of the reader's tenants."""

from __future__ import annotations

import pytest
from django.urls import reverse

from a2a import tasks
from a2a.models import Task
from a2a.tasks import family_of
from ledger.models import new_id

pytestmark = pytest.mark.django_db
ACME = frozenset({"acme"})


@pytest.fixture
def a_row(a_task):
    """Makes tasks of a tree, without the checks of a submission."""
    first = a_task()

    def make(revises=None, parent=None, **said):
        row = Task.objects.get(pk=first.pk)
        number = (revises.revision or 0) + 1 if revises else None
        columns = {"revises": revises, "parent": parent, "revision": number, **said}
        for name, value in {"pk": new_id(), "idempotency_key": "", **columns}.items():
            setattr(row, name, value)
        row.save(force_insert=True)
        return row

    return make


def drawn(task, most=100, tenants=ACME):
    """The tree as lines: ``this`` is marked, indents are dots, gaps have their number."""
    rows, after = family_of(task, tenants, most)
    names = {}
    lines = []
    for row in rows:
        names.setdefault(row.task.pk, f"{row.task.skill_slug}")
        gap = f"({row.hidden}) " if row.hidden else ""
        lines.append(f"{gap}{'.' * row.indent}{row.task.skill_slug}{'*' if row.is_this else ''}")
    return lines + ([f"({after})"] if after else [])


def test_revisions_and_delegated_tasks_are_one_tree(a_row):
    root = a_row(skill_slug="root")
    a_row(skill_slug="delegated", parent=root)
    second = a_row(skill_slug="second", revises=root)
    third = a_row(skill_slug="third", revises=second)
    a_row(skill_slug="one", revises=third)
    a_row(skill_slug="two", revises=third)
    a_row(skill_slug="helper", parent=third)

    assert drawn(third) == [
        "root",
        ".delegated",
        "second",
        "third*",
        ".one",
        ".two",
        ".helper",
    ]


def test_a_task_alone_is_a_tree_of_one(a_row):
    assert drawn(a_row(skill_slug="only")) == ["only*"]


def test_a_long_chain_shows_what_is_near_and_the_first(a_row):
    rows = [a_row(skill_slug="r0")]
    for number in range(1, 60):
        rows.append(a_row(skill_slug=f"r{number}", revises=rows[-1]))

    assert drawn(rows[40], 5) == ["r0", "(37) r38", "r39", "r40*", "r41", "(18)"]
    assert len(drawn(rows[40])) == 60


def test_tasks_of_another_tenant_are_left_out(a_row, globex):
    theirs = a_row(skill_slug="theirs", tenant="globex")
    ours = a_row(skill_slug="ours", parent=theirs)
    a_row(skill_slug="far", parent=ours, tenant="globex")

    assert drawn(ours) == ["ours*"]
    assert drawn(ours, tenants=ACME | {"globex"}) == ["theirs", ".ours*", "..far"]


def test_the_page_shows_the_tree_and_what_each_revision_was_to_change(as_alice, a_task, client_of):
    first = a_task()
    tasks.cancel(first.pk, by=client_of.principal, via="api")
    change = [{"text": "Keep the <table>."}]
    second = a_task(revises=first.pk, parts=[{"data": {}}, *change])

    page = " ".join(as_alice.get(reverse("desk:task", args=[first.pk])).content.decode().split())
    assert "Keep the &lt;table&gt;." in page
    assert f'data-also="{second.pk}"' in page
    assert reverse("desk:task", args=[second.pk]) in page
    assert "revision 1 · waiting for a worker" in page


def test_a_tree_leaves_out_inputs_results_and_files(a_task, client_of):
    first = a_task()
    tasks.cancel(first.pk, by=client_of.principal, via="api")
    file = {"raw": "x" * 10_000, "filename": "a.bin"}
    said = [{"data": {}}, {"text": "Keep"}, file, {"text": "this. " + "y" * 10_000}]
    a_task(revises=first.pk, parts=said)

    (top, revision), _ = family_of(first, ACME, 100)
    for row in (top, revision):
        assert {"input", "result", "metadata", "errors"} <= row.task.get_deferred_fields()
    assert revision.change.startswith("Keep\nthis. yyy")
    assert len(revision.change) == 200
    assert top.change == ""


def test_a_page_with_more_revisions_takes_no_more_queries(
    as_alice, a_row, django_assert_max_num_queries
):
    first = a_row(skill_slug="first")

    def queries():
        with django_assert_max_num_queries(200) as made:
            as_alice.get(reverse("desk:task", args=[first.pk]))
        return len(made)

    a_row(revises=first)
    few = queries()
    for _ in range(5):
        a_row(revises=first)
    assert queries() == few
