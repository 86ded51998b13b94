"""The places of the desk and the pages in each, as the bars and tabs show them to one person."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, pgettext_lazy

from approvals.models import Role

MANAGER, OPERATOR = Role.APPROVER, Role.OPERATOR
STAFF, SUPERUSER = "staff", "superuser"  # of Django


@dataclass(frozen=True, slots=True)
class Page:
    """A tab. It is shown to whoever is one of ``to``; an empty one is shown to everybody."""

    address: str  # the name of its URL
    label: str | Promise
    to: frozenset[str] = frozenset()
    within: tuple[str, ...] = ()  # beginnings of the names of the pages beneath it

    def has(self, address: str) -> bool:
        return address == self.address or address.startswith(self.within)


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the bar. ``key`` goes there after ``g``."""

    name: str
    label: str | Promise
    icon: str
    key: str
    pages: tuple[Page, ...]


@dataclass(frozen=True, slots=True)
class ShownPlace:
    """A place as one person sees it, from the page ``current``."""

    place: Place
    pages: list[Page]
    current: Page | None

    @property
    def address(self) -> str:
        return self.pages[0].address


def _to(*names: str) -> frozenset[str]:
    return frozenset(names)


INSIGHT = "desk:insight"
PLACES = (
    Place(
        "inbox",
        gettext_lazy("Inbox"),
        "inbox",
        "i",
        (Page("desk:inbox", gettext_lazy("Inbox"), within=("desk:review",)),),
    ),
    Place(
        "work",
        pgettext_lazy("what agents do for people", "Work"),
        "list-checks",
        "w",
        (Page("desk:tasks", gettext_lazy("Tasks"), within=("desk:task", "desk:give")),),
    ),
    Place(
        "record",
        pgettext_lazy("what was decided", "Record"),
        "history",
        "r",
        (
            Page("desk:history", gettext_lazy("Decisions")),
            Page(
                "desk:standing",
                gettext_lazy("Standing"),
                _to(MANAGER, OPERATOR),
                ("desk:standing",),
            ),
            Page(INSIGHT, gettext_lazy("Insight"), _to(MANAGER, OPERATOR)),
            Page(
                "desk:changes",
                gettext_lazy("People and set-up"),
                _to(OPERATOR, SUPERUSER),
                ("desk:change",),
            ),
        ),
    ),
    Place(
        "settings",
        gettext_lazy("Settings"),
        "settings",
        "s",
        (
            Page(
                "desk:tools",
                gettext_lazy("Tools"),
                _to(OPERATOR),
                ("desk:tool", "desk:mcp", "desk:secret"),
            ),
            Page("desk:agents", gettext_lazy("Agents"), _to(OPERATOR), ("desk:agent",)),
            Page(
                "desk:rules",
                gettext_lazy("Rules"),
                _to(MANAGER, OPERATOR),
                ("desk:rule", "desk:group"),
            ),
            Page(
                "desk:connections",
                gettext_lazy("Connections"),
                _to(OPERATOR),
                ("desk:connection",),
            ),
            Page(
                "desk:people", gettext_lazy("People"), _to(OPERATOR), ("desk:people", "desk:person")
            ),
            Page("desk:channels", gettext_lazy("Channels"), _to(OPERATOR), ("desk:channel",)),
            Page(
                "desk:organisations",
                gettext_lazy("Organisation"),
                _to(OPERATOR),
                ("desk:organisation",),
            ),
        ),
    ),
    Place(
        "operations",
        gettext_lazy("Operations"),
        "activity",
        "o",
        (
            Page("desk:operations", gettext_lazy("Now"), _to(OPERATOR), ("desk:bus-request",)),
            Page("admin:index", gettext_lazy("Ledger"), _to(STAFF)),
        ),
    ),
)


def places_of(person: Collection[str], address: str, *, has_insight: bool) -> list[ShownPlace]:
    """The places of whoever has these roles (or is staff or superuser), from one page."""
    shown = []
    for place in PLACES:
        pages = [
            page
            for page in place.pages
            if (not page.to or not page.to.isdisjoint(person))
            and (has_insight or page.address != INSIGHT)
        ]
        if pages:
            current = next((page for page in pages if page.has(address)), None)
            shown.append(ShownPlace(place, pages, current))
    return shown
