"""The Home tab: what waits for this person, the most urgent first."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _, ngettext
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    DividerBlock,
    HeaderBlock,
)
from slack_sdk.models.views import View

from approvals.desk import BROKEN, MINE, Viewer, inbox
from approvals.http.middleware import Roles, roles_of, tenants_of
from approvals.models import SlackWorkspace
from approvals.people import principal_of
from approvals.presentation import state_label
from approvals.presentation.labels import undo_words
from approvals.slack.rendering import stop
from approvals.slack.rendering.parts import desk_link, open_button
from approvals.slack.rendering.text import (
    bold,
    one_line,
    pieces,
    plain,
    regular,
    regular_date,
    rich,
    shortened,
)

MOST_ROWS = 30  # three blocks each; a view has a hundred


def waiting_for(user: User) -> tuple[list[inbox.Entry], int]:
    """The rows that this person may act on now, and how much more waits on the desk."""
    viewer = Viewer(str(principal_of(user)), roles_of(user), tenants_of(user))
    listing = inbox.waiting(viewer, inbox.Filters(), timezone.now())
    entries = [entry for entry in listing.entries if entry.rank in MINE]
    return entries, max(0, inbox.count(viewer) - len(entries))


def number_waiting_for(user: User) -> int:
    entries, more = waiting_for(user)
    return len(entries) + more


def tenants_in(workspace: SlackWorkspace, person: User, roles: Roles) -> frozenset[str]:
    """The person's tenants that the workspace serves."""
    return tenants_of(person, roles) & {*workspace.tenants.values_list("slug", flat=True)}


def in_words(number: int) -> str:
    if number == 0:
        return _("Nothing waits for you.")
    text = ngettext("One item waits for you.", "{count} items wait for you.", number)
    return text.format(count=number)


def view_for(user: User, workspace: SlackWorkspace) -> View:
    entries, more = waiting_for(user)
    number = len(entries) + more
    # By turns: the first of each agent before the second of any.
    shown = sorted(entries, key=lambda entry: (entry.place, entry.order))[:MOST_ROWS]
    roles = roles_of(user)
    tenants, team = tenants_in(workspace, user, roles), workspace.team_id
    blocks: list[Block] = [*stop.standing(user, tenants, roles, team)]
    blocks += [HeaderBlock(text=plain(in_words(number))), _desk(stop.button(team))]
    for entry in sorted(shown, key=lambda entry: entry.order):
        blocks += [DividerBlock(), *_row(entry)]
    if number > len(shown):
        blocks.append(rich(regular(_more_on_the_desk(number - len(shown)))))
    return View(type="home", blocks=blocks)


def _more_on_the_desk(number: int) -> str:
    text = ngettext("One more is on the desk.", "{count} more are on the desk.", number)
    return text.format(count=number)


def for_a_stranger() -> View:
    """For a Slack user who is not linked with an account of the desk."""
    link = open_button(desk_link("slack"), _("Link my account"), "primary")
    return View(
        type="home",
        blocks=[
            HeaderBlock(text=plain(_("Assent does not know yet who you are"))),
            rich(regular(_("Link your Slack user with your account at the desk, once."))),
            ActionsBlock(elements=[link]),
        ],
    )


def with_text(text: str) -> View:
    return View(type="home", blocks=[rich(regular(text)), _desk()])


def _desk(*further: ButtonElement) -> ActionsBlock:
    return ActionsBlock(elements=[open_button(desk_link("inbox"), _("Open the desk")), *further])


def _row(entry: inbox.Entry) -> Iterator[Block]:
    if (question := entry.question) is not None:
        summary, about = question.headline, _("{name} asks").format(name=question.asked_by_name)
        page = desk_link("question", question.pk)
    else:
        row = entry.tx
        assert row is not None
        summary, page = row.headline, desk_link("transaction", row.pk)
        about = f"{row.proposed_by_name} · {undo_words(row.consequence_level)}"
        if entry.rank == BROKEN:
            about = f"{about} · {state_label(row)}"
    title = bold(shortened(one_line(summary), 300))
    if entry.rank == BROKEN:
        yield rich(title, regular(f"\n{about} · "), regular(_("an operator has to look")))
    else:
        until = pieces(_("until {when}"), when=regular_date(entry.expires_at))
        yield rich(title, regular(f"\n{about} · "), *until)
    yield ActionsBlock(elements=[open_button(page)])
