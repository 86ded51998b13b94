"""Who writes a state, and what the maps of states promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from a2a import states as task_states
from ledger import states
from tests.house.source import name_of, product
from tests.house.state_writes import dynamic_writes, state_writes

# Each map has one writer; the others write a row's first state, or the state of a row of theirs.
WRITERS = {
    "ledger.events.moves": "the state of a transaction or task, for both advance()",
    "ledger.transactions.prepare.insert": "the INSERT of that first state",
    "ledger.transactions.prepare.drafts": "a transaction's first state",
    "ledger.transactions.prepare.abandoned_plans": "the first state of what nobody entered",
    "ledger.events.outbox": "a delivery's state",
    "ledger.sign_off.rules.sets": "the state of a set of rules",
    "ledger.tools.mcp_upstreams.reading": "the state of a tool of an MCP server",
    "ledger.tools.mcp_upstreams.releases": "the state of a tool of an MCP server",
    "a2a.tasks.transitions": "the state of a question whose task ends",
    "a2a.submissions.drafts": "a task's first state",
    "a2a.submissions.entries": "the INSERT of that first state",
    "a2a.tasks.questions": "a question's state",
    "ledger.events.four_eyes.request": "the state of a change that waits for a second operator",
}
# setattr with a name that is not written there; none of these names is a state.
DYNAMIC = {
    "a2a.doors.git_bus.record": "columns of a request of a bus, which has no state",
    "approvals.people.rights": "flags of an account",
    "ledger.transactions.requests.revising": "columns that a plan fills; none is the state",
    "approvals.declared.kinds": "columns of a row that a file declares; none has a state",
    "approvals.web.settings.saving": "columns that a form has; none has a state",
    "approvals.web.settings.agents": "fields of an agent, which has no state",
    "approvals.slack.messages.posting": "columns of a message in Slack",
    "ledger.contracts.contract": "fields of a contract, which has no state",
}


def test_nobody_else_writes_a_state():
    writers = {module.name for module in product() if any(state_writes(module.tree))}

    assert writers == set(WRITERS)


def test_no_attribute_is_set_by_a_name_that_could_be_the_state():
    assert {module.name for module in product() if any(dynamic_writes(module.tree))} == set(DYNAMIC)


@pytest.mark.parametrize(
    "code",
    [
        "row.state = State.APPROVED",
        "row.state, row.ended_at = State.ABORTED, now()",
        "[first, (row.state, second)] = values",
        "row.state += 'x'",
        "row.state: str = 'approved'",
        "for row.state in states: pass",
        "with opened() as row.state: pass",
        "del row.state",
        "columns['state'] = move.target",
        "rows.update(state='approved')",
        "rows.filter(pk=1).update(note='', state=F('other'))",
        "rows.update(**{'state': 'approved'})",
        "await rows.aupdate(state='approved')",
        "update_returning(rows, state=move.target, **changes)",
        "rows.update_or_create(pk=1, defaults={'state': 'approved'})",
        "rows.get_or_create(pk=1, defaults=dict(state='approved'))",
        "Task.objects.create(state='working')",
        "Transaction(state='approved')",
        "changes.update({'state': 'approved'})",
        "setattr(row, 'state', 'approved')",
        "object.__setattr__(row, 'state', 'approved')",
        "rows.bulk_update(changed, ['state'])",
        "rows.bulk_update(changed, fields=('note', 'state'))",
        "rows.bulk_create(made, update_conflicts=True, update_fields=['state'])",
        "row.save(update_fields=['state'])",
        "row.save(update_fields=('note', 'state'))",
        "cursor.execute('UPDATE ledger_transaction SET note = 1, state = 2')",
        "cursor.execute(f'INSERT INTO {table} (id, state) VALUES (1, 2)')",
    ],
)
def test_each_way_to_write_a_state_is_seen(code):
    assert list(state_writes(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "if row.state == 'approved': pass",
        "rows.filter(state='approved').update(note='')",
        "body = {'state': row.state}",
        "raise NotPossible(state=row.state)",
        "rows.exclude(state__in=FINAL).delete()",
        "cursor.execute('SELECT state FROM ledger_transaction')",
        "def advance():\n    '''One UPDATE t SET of the state.'''",
        "row.save(update_fields=['note'])",
        "estate = row.real_state = 1",
    ],
)
def test_reading_a_state_is_no_write(code):
    assert not list(state_writes(ast.parse(code)))


def test_a_name_that_is_computed_is_seen():
    assert list(dynamic_writes(ast.parse("for name in names: setattr(row, name, value)")))
    assert not list(dynamic_writes(ast.parse("setattr(row, 'note', value)")))


def is_state(item: ast.AST) -> bool:
    """``State.FAILED``, and not the event kind of that name."""
    return isinstance(item, ast.Attribute) and not name_of(item.value).endswith("Kind")


def copied_sets(tree: ast.AST) -> Iterator[int]:
    """Lines that spell the final states, or those without effect, instead of naming the set.

    A list with other states among them is of all states, and no copy.
    """
    sets = [states.FINAL, states.WITHOUT_EFFECT, task_states.FINAL]
    names = [{state.name for state in known} for known in sets]
    others = {state.name for state in set(states.State) - states.FINAL}
    others |= {state.name for state in set(task_states.TaskState) - task_states.FINAL}
    for node in ast.walk(tree):
        if isinstance(node, ast.Set | ast.List | ast.Tuple):
            spelled = {item.attr for item in node.elts if is_state(item)}
            spelled |= {str(getattr(item, "value", "")).upper() for item in node.elts}
            if any(known <= spelled for known in names) and not spelled & others:
                yield node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted = set(re.findall(r"'(\w+)'", node.value.upper()))
            if any(known <= quoted for known in names):
                yield node.lineno


def test_the_final_states_are_spelled_once():
    copies = {module.name for module in product() if any(copied_sets(module.tree))}

    assert copies == {"ledger.states", "a2a.states"}


@pytest.mark.parametrize(
    "code",
    [
        "open = state not in {State.REFUSED, State.ABORTED, State.FAILED}",
        "rows.exclude(state__in=['aborted', 'failed', 'refused'])",
        "SQL = \"WHERE state NOT IN ('refused', 'aborted', 'failed')\"",
        "ended = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)",
    ],
)
def test_each_copy_of_the_final_states_is_seen(code):
    assert list(copied_sets(ast.parse(code)))


def test_final_states_have_no_way_out_but_compensation_and_a_late_receipt():
    moves = {move for move in states.MOVES if move.target} - {states.KEEP_RECEIPT}
    leaving = {source for move in moves for source in move.sources}

    assert leaving & states.FINAL == {states.State.COMMITTED}
