"""Tags of the ledger admin: its tables in the order of work, and a person's saved filters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import template
from django.utils.translation import gettext as _, gettext_lazy

from approvals.web.account.saved_views import ledger_views_context

register = template.Library()

# Tables as operators need them, each with what it is for.
ORDER = (
    (
        gettext_lazy("What agents asked for"),
        {
            "Transaction": gettext_lazy(
                "Each proposed use of a tool, from the proposal to its receipt."
            ),
            "Task": gettext_lazy("Work that agents do for people and for each other."),
            "Question": gettext_lazy("What agents asked people, and who answered."),
            "Reading": gettext_lazy("Calls that change nothing: which agent read what."),
        },
    ),
    (
        gettext_lazy("What was decided"),
        {
            "Decision": gettext_lazy("Each yes and no, with its reason."),
            "Event": gettext_lazy("The sealed log: everything that happened, in order."),
        },
    ),
    (
        gettext_lazy("What was sent"),
        {
            "Delivery": gettext_lazy("Messages to people and services: sent, waiting, given up."),
            "SlackMessage": gettext_lazy("Where in Slack a transaction or question is shown."),
            "BusRequest": gettext_lazy("Requests that came or went through a git repository."),
        },
    ),
    (
        gettext_lazy("What proves it"),
        {
            "Checkpoint": gettext_lazy("Signed states of the log, against which it is verified."),
            "IdempotencyKey": gettext_lazy(
                "Which request was answered how, so that none counts twice."
            ),
        },
    ),
)
OF_THE_LEDGER = {name for _heading, tables in ORDER for name in tables}


@dataclass(frozen=True, slots=True)
class Table:
    """One line of the index."""

    name: str
    address: str
    add_address: str
    purpose: str


@register.simple_tag
def ledger_contents(app_list: Iterable[dict[str, Any]]) -> list[tuple[str, list[Table]]]:
    """Headings and tables that this person may see; what is none of the ledger's comes last."""
    models = {
        model["object_name"]: model
        for app in app_list
        for model in app["models"]
        if model.get("admin_url")
    }
    groups = [
        (
            str(heading),
            [_table(models[name], str(why)) for name, why in tables.items() if name in models],
        )
        for heading, tables in ORDER
    ]
    others = [_table(model) for name, model in models.items() if name not in OF_THE_LEDGER]
    return [group for group in [*groups, (_("Set-up"), others)] if group[1]]


def _table(model: dict[str, Any], purpose: str = "") -> Table:
    return Table(str(model["name"]), model["admin_url"], model.get("add_url") or "", purpose)


@register.inclusion_tag("admin/ledger/saved_filters.html", takes_context=True)
def saved_filters(context: template.RequestContext, options: Any) -> dict[str, Any]:
    """Filters of this list that the person saved, and a field to name the present ones."""
    return ledger_views_context(context["request"], options) | {
        "csrf_token": context.get("csrf_token")
    }
