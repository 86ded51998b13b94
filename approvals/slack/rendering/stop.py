"""The button that opens the form to stop something, and what stands still, with one to lift it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from django.contrib.auth.models import User
from django.utils.translation import gettext as _, ngettext
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    ConfirmObject,
)

from approvals.desk import may_lift, scope_in_words, standing_for
from approvals.http.middleware import Roles
from approvals.people import principal_of
from approvals.slack.rendering.signed_values import ButtonValue
from approvals.slack.rendering.text import (
    Piece,
    bold,
    one_line,
    pieces,
    plain,
    regular,
    regular_date,
    rich,
    shortened,
)
from ledger.models import Brake

MOST_SHOWN = 5


def button(team: str, subject: str = "", message: int = 0) -> ButtonElement:
    """Opens the form: of a message's transaction, or of all that a person may stop."""
    value = ButtonValue("stop", subject, "", team, message)
    return ButtonElement(text=plain(_("Stop…")), action_id="stop", value=value.signed())


def standing(person: User, tenants: Collection[str], roles: Roles, team: str) -> Iterator[Block]:
    """Each brake that concerns these tenants, and a button that lifts it for those who may."""
    brakes = standing_for(tenants)
    for brake in brakes[:MOST_SHOWN]:
        yield _shown(brake)
        by = str(principal_of(person))
        if not brake.is_hold and may_lift(brake, by, roles, is_superuser=person.is_superuser):
            yield ActionsBlock(elements=[_lift(brake, team)])
    if (more := len(brakes) - MOST_SHOWN) > 0:
        text = ngettext("One more is on the desk.", "{count} more are on the desk.", more)
        yield rich(regular(text.format(count=more)))


def _shown(brake: Brake) -> Block:
    what = _("Stopped: {what}").format(what=scope_in_words(brake))
    about: list[Piece] = [regular(f"\n{one_line(brake.why)}\n"), regular_date(brake.at)]
    about.append(regular(f" · {brake.by_name}"))
    if brake.until is not None:
        about += [regular(" · "), *pieces(_("until {when}"), when=regular_date(brake.until))]
    return rich(bold(shortened(one_line(what), 300)), *about)


def _lift(brake: Brake, team: str) -> ButtonElement:
    value = ButtonValue("lift", str(brake.pk), "", team, 0)
    confirm = ConfirmObject(
        title=plain(_("Let it go on?"), 100),
        text=plain(scope_in_words(brake), 300),
        confirm=plain(_("Let it go on"), 30),
        deny=plain(_("Cancel"), 30),
    )
    label = plain(_("Let it go on"))
    return ButtonElement(text=label, action_id="lift", value=value.signed(), confirm=confirm)
