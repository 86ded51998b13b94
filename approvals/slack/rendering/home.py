"""The Home tab: what waits for me, most urgent first."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.auth.models import User
from django.utils import timezone
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    DividerBlock,
    HeaderBlock,
    LinkButtonElement,
)
from slack_sdk.models.views import View

from approvals.desk import inbox, policies
from approvals.http.middleware import roles_of, tenants_of
from approvals.models import Role
from approvals.people.principals import principal_of
from approvals.slack.rendering.blocks import desk_link
from approvals.slack.rendering.text import (
    bold,
    moment,
    one_line,
    plain,
    rich,
    shortened,
    words,
)

MOST_ROWS = 30  # three blocks each; a view has a hundred


def waiting_for(user: User) -> list[inbox.Entry]:
    """What this person may decide, answer or settle now."""
    tenants, roles, now = tenants_of(user), roles_of(user), timezone.now()
    me = str(principal_of(user))

    def is_mine(entry: inbox.Entry) -> bool:
        """Roles first: to say why not, policies look up who else may."""
        if (one := entry.question) is not None:
            mine = roles.get(one.tenant, frozenset()) | {me}
            is_named = bool(mine & set(one.may_answer))
            return is_named and bool(policies.may_answer(one, me, roles, now))
        row = entry.tx
        assert row is not None
        mine = roles.get(row.tenant, frozenset())
        if entry.group in {"doubt", "stuck"}:
            return Role.OPERATOR in mine and bool(policies.may_operate(row, me, roles))
        return Role.APPROVER in mine and bool(policies.may_decide(row, me, roles, now))

    return [entry for entry in inbox.waiting(tenants, inbox.Filters(), now) if is_mine(entry)]


def in_words(number: int) -> str:
    return {0: "Nothing waits for you.", 1: "One item waits for you."}.get(
        number, f"{number} items wait for you."
    )


def view_for(user: User) -> View:
    entries = waiting_for(user)
    blocks: list[Block] = [HeaderBlock(text=plain(in_words(len(entries)))), _desk()]
    for entry in entries[:MOST_ROWS]:
        blocks += [DividerBlock(), *_row(entry)]
    if len(entries) > MOST_ROWS:
        blocks.append(rich(words(f"{len(entries) - MOST_ROWS} more are on the desk.")))
    return View(type="home", blocks=blocks)


def for_a_stranger() -> View:
    """For a Slack user of whom we do not know who it is."""
    link = LinkButtonElement(
        text=plain("Link my account"), url=desk_link("slack"), action_id="open", style="primary"
    )
    return View(
        type="home",
        blocks=[
            HeaderBlock(text=plain("Assent does not know yet who you are")),
            rich(words("Link your Slack user with your account at the desk, once.")),
            ActionsBlock(elements=[link]),
        ],
    )


def with_words(text: str) -> View:
    return View(type="home", blocks=[rich(words(text)), _desk()])


def _desk() -> ActionsBlock:
    link = LinkButtonElement(text=plain("Open the desk"), url=desk_link("inbox"), action_id="open")
    return ActionsBlock(elements=[link])


def _row(entry: inbox.Entry) -> Iterator[Block]:
    if entry.question is not None:
        one = entry.question
        summary, about, page = one.headline, f"{one.asked_by_name} asks", ("question", one.pk)
    else:
        assert entry.tx is not None
        row = entry.tx
        summary, page = row.headline, ("transaction", row.pk)
        about = f"{row.proposed_by_name} · {row.consequence_level.lower()}"
        if entry.group in {"doubt", "stuck"}:
            about = f"{about} · {row.get_state_display()}"
    yield rich(
        bold(shortened(one_line(summary), 300)), words(f"\n{about} · "),
        *([words("until "), moment(entry.expires_at)] if entry.group not in {"doubt", "stuck"}
          else [words("an operator has to look")]),
    )  # fmt: skip
    link = LinkButtonElement(text=plain("Open"), url=desk_link(*page), action_id="open")
    yield ActionsBlock(elements=[link])
