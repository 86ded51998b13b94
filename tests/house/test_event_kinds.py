"""Every kind of event stands in every table of kinds, or in the list of what that table leaves out.

A new event kind fails here until each surface has said what it does with it.
"""

from __future__ import annotations

import ast
import re

from a2a import states as task_states
from a2a.doors.git_bus.changes import BusChange
from a2a.doors.humanlayer.changes import BindingChange
from a2a.rest import doorbell as task_doorbell
from approvals.oauth.changes import IssuerChange, SignInChange
from approvals.people import notices
from approvals.presentation import labels
from approvals.scim.changes import DirectoryChange
from approvals.slack.changes import SlackChange
from approvals.slack.messages import channel as slack_channel, thread_replies
from examples import verify
from ledger import states
from ledger.delivery.webhooks import channel as webhooks, owners
from ledger.events import change_kinds, outbox
from ledger.workers import jobs, queues
from tests.house.source import ROOT, product

TRANSACTION_KINDS = set(states.EventKind)
TASK_KINDS = set(task_states.TaskEventKind)
# Of the ledger, of the desk, and of the optional apps, which describe their own.
CHANGES = (
    change_kinds.ChangeKind,
    SlackChange,
    BusChange,
    BindingChange,
    DirectoryChange,
    SignInChange,
    IssuerChange,
)
ACCOUNT_KINDS = {kind for kinds in CHANGES for kind in kinds}
# Not posted and no reason to look at a message again: nothing that it shows has changed.
NOT_IN_SLACK = {
    "advised",
    "plan_confirmed",
    "permit_issued",
    "decision_reviewed",
    "refused",
    "plan_abandoned",
    "retry_ordered",
    "late_receipt_settled",
    "settlement_proposed",
    "settlement_declined",
    "task_submitted",
    "task_rejected",
    "task_claimed",
    "task_put_back",
    "task_handed_over",
    "task_progressed",
    "task_artifact_added",
    "task_message_added",
    "task_declined",
    "task_asked_about",
    "task_awaits_sign_off",
    "task_resumed",
    "task_exchanged",
    "legal_hold_placed",
    "legal_hold_released",
    "task_legal_hold_placed",
    "task_legal_hold_released",
}
# The message is brought up to date; its thread is not told.
NOT_IN_THREADS = NOT_IN_SLACK | {
    "terms_renewed",
    "terms_tightened",
    "deadline_moved",
    "handed_over",
    "prepared",
    "claimed",
    "withdrawn",
    "aborted",
    "failure_settled",
    "let_go_by_hand",
    "failure_let_go_by_hand",
    "late_receipt",
    "receipt_kept",
    "task_asked",
    "content_erased",
    "task_content_erased",
}
# An agent's webhook tells decisions and ends, nothing between them.
NOT_BY_WEBHOOK = {
    "advised",
    "plan_confirmed",
    "answered",
    "noted",
    "extended",
    "terms_renewed",
    "deadline_moved",
    "escalated",
    "permit_issued",
    "decision_reviewed",
    "passed_on",
    "prepared",
    "refused",
    "plan_abandoned",
    "approval_recorded",
    "claimed",
    "hold_lapsed",
    "withdrawn",
    "retried",
    "retry_ordered",
    "disproved",
    "late_receipt",
    "late_receipt_settled",
    "settlement_proposed",
    "settlement_declined",
    "compensation_started",
    "content_erased",
    "legal_hold_placed",
    "legal_hold_released",
}
# No trouble of an owning service.
NOT_FOR_OWNERS = {
    "advised",
    "revised",
    "plan_confirmed",
    "asked",
    "answered",
    "noted",
    "extended",
    "terms_renewed",
    "terms_tightened",
    "deadline_moved",
    "approval_withdrawn",
    "escalated",
    "permit_issued",
    "decision_reviewed",
    "passed_on",
    "prepared",
    "refused",
    "plan_abandoned",
    "approval_recorded",
    "approved",
    "handed_over",
    "claimed",
    "withdrawn",
    "committed",
    "retried",
    "retry_ordered",
    "aborted",
    "failure_settled",
    "let_go_by_hand",
    "failure_let_go_by_hand",
    "receipt_kept",
    "settlement_proposed",
    "settlement_declined",
    "compensated",
    "content_erased",
    "legal_hold_placed",
    "legal_hold_released",
}
# Nothing for a worker to do: it waits for people, is at work already, or has ended.
WITHOUT_JOB = {
    "advised",
    "revised",
    "plan_confirmed",
    "asked",
    "answered",
    "noted",
    "extended",
    "terms_renewed",  # the sweeper enqueues what is signed off still
    "terms_tightened",
    "deadline_moved",
    "approval_withdrawn",
    "escalated",
    "permit_issued",
    "decision_reviewed",
    "passed_on",
    "prepared",
    "refused",
    "approval_recorded",
    "handed_over",
    "claimed",
    "committed",
    "retried",
    "aborted",
    "failure_settled",
    "let_go_by_hand",
    "failure_let_go_by_hand",
    "receipt_kept",
    "late_receipt",
    "late_receipt_settled",
    "settlement_proposed",
    "settlement_declined",
    "compensated",
    "content_erased",
    "legal_hold_placed",
    "legal_hold_released",
}
# Not told to the person whose account it is: it is not about a person, or is no news to them.
NOT_TOLD_TO_THE_PERSON = {
    # The person does it; the list in the account shows it.
    *SignInChange,
    *IssuerChange,
    "brake_put",
    "brake_lifted",
    "directory_entry_changed",
    "user_created",
    "email_change_asked",
    "user_deactivated",
    "change_requested",
    "change_declined",
    "alone_read",
    "tenant_added",
    "tenant_changed",
    "agent_added",
    "agent_changed",
    "agent_activated",
    "agent_deactivated",
    "tool_registered",
    "tool_changed",
    "tool_withdrawn",
    "tool_change_asked",
    "tool_change_declined",
    "rules_activated",
    "rules_asked",
    "rules_declined",
    "group_made",
    "group_member_added",
    "group_member_removed",
    "group_change_asked",
    "group_change_declined",
    "grant_given",
    "grant_ended",
    "break_glass_asked",
    "break_glass_declined",
    "function_bound",
    "function_unbound",
    "function_binding_asked",
    "function_binding_declined",
    "tool_pinned",
    "tool_held",
    "tool_released",
    "mcp_server_added",
    "mcp_server_changed",
    "mcp_server_removed",
    "tool_unpinned",
    "credential_added",
    "credential_changed",
    "credential_removed",
    "webhook_changed",
    "webhook_secret_renewed",
    "evidence_made",
    "log_stopped",
    "token_issued",
    "token_revoked",
    "token_changed",
    "owner_added",
    "owner_changed",
    "owner_removed",
    "owner_secret_renewed",
    "skill_added",
    "skill_changed",
    "remote_agent_added",
    "remote_agent_changed",
    "remote_agent_pinned",
    "bus_added",
    "bus_changed",
    "bus_history_rewritten",
    "bus_request_wished",
    "bus_request_settled",
    "notifications_turned_on",
    "notifications_turned_off",
    "slack_workspace_connected",
    "slack_workspace_changed",
    "slack_route_added",
    "slack_route_changed",
    "slack_route_removed",
    "slack_route_tried",
}
# A table that serves both rooms, in the lower one, which does not know the upper room's enum.
SPELLED = {
    ("ledger.events.erasures", "task_content_erased"),
    ("ledger.events.erasures", "task_legal_hold_placed"),
    ("ledger.events.erasures", "task_legal_hold_released"),
    # A state and an outcome of the same name.
    ("ledger.api.schemas", "handed_over"),
    ("ledger.transactions.outcomes", "handed_over"),
    # What an error of Slack's API is called, which is no event.
    ("approvals.slack.messages.recipients", "token_revoked"),
}


def parts(table: set[str], left_out: set[str]) -> set[str]:
    """Both together; a kind stands in one of them."""
    assert not table & left_out
    return table | left_out


def test_no_kind_is_of_two_rooms():
    assert not TRANSACTION_KINDS & TASK_KINDS
    assert not (TRANSACTION_KINDS | TASK_KINDS) & ACCOUNT_KINDS


def test_every_kind_has_its_label():
    assert set(labels.EVENT_LABELS) == TRANSACTION_KINDS | TASK_KINDS
    assert set(change_kinds.CHANGE_DESCRIPTIONS) == ACCOUNT_KINDS


def test_slack_posts_or_leaves_out_every_kind():
    posted = set(slack_channel.ASKS | slack_channel.CHANGES)

    assert not slack_channel.ASKS & slack_channel.CHANGES
    assert parts(posted, NOT_IN_SLACK) == TRANSACTION_KINDS | TASK_KINDS


def test_slacks_threads_tell_or_leave_out_every_kind():
    assert parts(set(thread_replies.KINDS), NOT_IN_THREADS) == TRANSACTION_KINDS | TASK_KINDS
    assert thread_replies.WITHOUT_ACTOR <= thread_replies.KINDS
    assert thread_replies.KINDS <= slack_channel.CHANGES


def test_webhooks_tell_or_leave_out_every_kind():
    assert parts(set(webhooks.KINDS), NOT_BY_WEBHOOK) == TRANSACTION_KINDS
    told = set(owners.ALERTS) | owners.MAY_GET_STUCK
    assert parts(told, NOT_FOR_OWNERS) == TRANSACTION_KINDS


def test_every_kind_has_its_job_or_needs_none():
    assert parts(set(jobs.JOB_FOR), WITHOUT_JOB) == TRANSACTION_KINDS
    assert set(jobs.JOB_FOR.values()) <= set(queues.JOBS)
    assert task_doorbell.NEW_WORK <= TASK_KINDS


def test_people_are_told_what_concerns_their_account():
    assert parts(set(notices.BY_ANOTHER), NOT_TOLD_TO_THE_PERSON) == ACCOUNT_KINDS
    assert set(notices.BY_THEMSELVES) <= set(notices.BY_ANOTHER)


def test_the_verifier_of_an_export_knows_every_kind():
    known = {kind for arrows in verify.MOVES.values() for kind in arrows}

    assert known >= TRANSACTION_KINDS | TASK_KINDS


def test_the_channels_are_these():
    assert set(outbox.channels) == {
        "webhook",
        "owner",
        "push",
        "humanlayer",
        "slack",
        "slack_link",
        "notice",
        "web_push",
        "reset_letter",
        "mail",
    }


def test_every_table_of_kinds_is_made_of_the_enums():
    tables = [
        labels.EVENT_LABELS,
        change_kinds.CHANGE_DESCRIPTIONS,
        notices.BY_ANOTHER,
        notices.BY_THEMSELVES,
        slack_channel.ASKS,
        slack_channel.CHANGES,
        thread_replies.KINDS,
        thread_replies.WITHOUT_ACTOR,
        webhooks.KINDS,
        owners.ALERTS,
        owners.MAY_GET_STUCK,
        jobs.JOB_FOR,
        task_doorbell.NEW_WORK,
    ]
    kinds = (states.EventKind, task_states.TaskEventKind, *CHANGES)

    assert all(isinstance(kind, kinds) for table in tables for kind in table)


def test_no_code_spells_a_kind_as_a_string():
    """Of the kinds that are no common words; ``late_receipt`` is a column as well."""
    homes = {"ledger.states", "a2a.states", *(kinds.__module__ for kinds in CHANGES)}
    kinds = {kind for kind in TRANSACTION_KINDS | TASK_KINDS | ACCOUNT_KINDS if "_" in kind}
    spelled = {
        (module.name, node.value)
        for module in product()
        if module.name not in homes
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and node.value in kinds - {"late_receipt"}
    }

    assert spelled == SPELLED


def test_every_kind_of_a_map_is_in_the_page_of_its_map():
    for page, kinds in (("states.md", TRANSACTION_KINDS), ("task-states.md", TASK_KINDS)):
        drawn = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / page).read_text(), re.M))
        assert drawn == kinds
