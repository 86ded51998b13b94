"""The tree that a task belongs to: what it revises, its revisions, and what was delegated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

from django.db import connection
from django.db.models import TextField
from django.db.models.expressions import RawSQL

from a2a.models import Message, Role, Task

MOST_READ = 400  # tasks of one tree
MOST_ABOVE = 200  # of which each is above the one before
MOST_INDENT = 5
# A revision stands below the task that it revises, another task below the one that delegated it.
_ABOVE = """
    WITH RECURSIVE above AS (
        SELECT id, coalesce(revises_id, parent_id) AS next, 0 AS step FROM a2a_task WHERE id = %s
        UNION ALL
        SELECT task.id, coalesce(task.revises_id, task.parent_id), step + 1
        FROM above JOIN a2a_task task ON task.id = above.next
        WHERE step < %s AND task.tenant = ANY (%s)
    )
    SELECT id FROM above ORDER BY step DESC
"""
_BELOW = """
    WITH RECURSIVE below AS (
        SELECT id FROM a2a_task WHERE id = %s
        UNION ALL
        SELECT task.id FROM below CROSS JOIN LATERAL (
            SELECT id, tenant FROM a2a_task WHERE revises_id = below.id
            UNION ALL
            SELECT id, tenant FROM a2a_task WHERE parent_id = below.id AND revises_id IS NULL
        ) AS task WHERE task.tenant = ANY (%s)
    )
    SELECT id FROM below LIMIT %s
"""
# What a tree shows of a task; inputs and results are large, and a tree has many of them.
_SHOWN = ("state", "skill_slug", "parent", "revises", "revision")
_CHANGE_SHOWN = 200  # characters
# The texts of a message, without its files.
_TEXTS = """
    SELECT left(string_agg(part ->> 'text', E'\\n' ORDER BY place), %s)
    FROM jsonb_array_elements("a2a_message"."parts") WITH ORDINALITY AS parts (part, place)
"""


@dataclass(slots=True)
class Relative:
    """One task of the tree. ``indent`` is how far it stands to the right.

    ``hidden`` is how many tasks are left out before it. ``change`` is the beginning of what a
    revision is to change.
    """

    task: Task
    indent: int
    is_this: bool
    distance: int  # from the task whose tree it is; those nearest are shown first
    hidden: int = 0
    change: str = ""

    @property
    def is_revision(self) -> bool:
        return self.task.revises_id is not None


def family_of(task: Task, tenants: frozenset[str], most: int) -> tuple[list[Relative], int]:
    """The tree around a task, from the top, and how many are left out after its last row.

    Of a large tree the ``most`` that are nearest to the task. Tasks of other tenants, and what is
    beyond them, are left out. A task that stands alone is a tree of one.
    """
    visible = sorted(tenants | {task.tenant})
    with connection.cursor() as cursor:
        cursor.execute(_ABOVE, [task.pk, MOST_ABOVE, visible])
        path: list[UUID] = [row[0] for row in cursor.fetchall()]
        cursor.execute(_BELOW, [path[0], visible, MOST_READ])
        ids = {row[0] for row in cursor.fetchall()} | set(path)
    tasks = Task.objects.filter(pk__in=ids).only(*_SHOWN).order_by("pk")
    rows = {row.pk: row for row in tasks}
    shown, hidden = _nearest(_in_order(path[0], rows, task.pk, path), most)
    _add_changes(shown)
    return shown, hidden


def _above_of(task: Task) -> UUID | None:
    return task.revises_id or task.parent_id


def _in_order(top: UUID, rows: dict[UUID, Task], this: UUID, path: list[UUID]) -> list[Relative]:
    """Each task followed by those below it. The only revision of a task stands right under it."""
    below: dict[UUID | None, list[Task]] = defaultdict(list)
    for row in rows.values():
        if row.pk != top:
            below[_above_of(row)].append(row)
    relatives: list[Relative] = []
    waiting = [(rows[top], 0)]
    while waiting:
        row, indent = waiting.pop()
        relatives.append(
            Relative(row, min(indent, MOST_INDENT), row.pk == this, _distance(row, path, this))
        )
        revisions = sum(each.revises_id is not None for each in below[row.pk])
        for each in reversed(below[row.pk]):
            is_next = each.revises_id is not None and revisions == 1
            waiting.append((each, indent if is_next else indent + 1))
    return relatives


def _distance(row: Task, path: list[UUID], this: UUID) -> int:
    if row.pk in path:
        # The first one is always wanted: it says what it was all about.
        return 1 if row.pk == path[0] else len(path) - path.index(row.pk) - 1
    return 1 if _above_of(row) == this else MOST_ABOVE + MOST_READ


def _nearest(rows: list[Relative], most: int) -> tuple[list[Relative], int]:
    nearest = sorted(range(len(rows)), key=lambda at: (rows[at].distance, at))[:most]
    shown: list[Relative] = []
    next_at = 0
    for at in sorted(nearest):
        rows[at].hidden = at - next_at
        next_at = at + 1
        shown.append(rows[at])
    return shown, len(rows) - next_at


def _add_changes(shown: list[Relative]) -> None:
    """Set what each revision is to change: the texts of the message that asked for it."""
    revisions = {row.task.pk: row for row in shown if row.is_revision}
    asked = Message.objects.filter(task__in=revisions, role=Role.USER).order_by("task", "pk")
    texts = RawSQL(_TEXTS, [_CHANGE_SHOWN], output_field=TextField())
    for task_id, text in asked.distinct("task").values_list("task", texts):
        revisions[task_id].change = text or ""
