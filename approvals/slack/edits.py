"""Edits of workspaces and routes by operators, each a sealed event; and a try of a route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Model
from django.db.transaction import atomic
from django.utils.translation import gettext as _
from slack_sdk.errors import SlackApiError

from approvals.models import SlackRoute, SlackWorkspace
from approvals.slack.api import NoSuchApp, Unreachable, app_for, call_slack, error_of
from approvals.slack.changes import SlackChange
from approvals.slack.languages import in_language_of_workspace
from approvals.slack.messages.recipients import REMEDY, target_of
from approvals.slack.rendering import escaped
from ledger.events import edits_between, record_change
from ledger.events.outbox import NotNow
from ledger.principals import Principal, Surface


class NotSent(Exception):
    """Nothing was posted; the text says why, and what to do."""


def change_workspace(
    workspace: SlackWorkspace, wanted: Mapping[str, Any], *, by: Principal, via: Surface
) -> None:
    """Set the language and the tenants that are wanted, under the caller's lock of the row."""
    with atomic():
        before = {"language": workspace.language, "tenants": _tenants(workspace)}
        if "language" in wanted:
            workspace.language = wanted["language"]
            workspace.save(update_fields=["language"])
        if "tenants" in wanted:
            workspace.tenants.set(wanted["tenants"])
        after = {"language": workspace.language, "tenants": _tenants(workspace)}
        if edits := edits_between(before, after):
            # Of a workspace of several tenants only superusers see the changes.
            tenant = after["tenants"][0] if len(after["tenants"]) == 1 else ""
            subject, name = f"slack_workspace:{workspace.pk}", str(workspace)[:200]
            about: dict[str, Any] = {"name": name, "details": {"edits": edits}}
            kind = SlackChange.WORKSPACE_CHANGED
            record_change(subject, kind, tenant=tenant, by=by, via=via, **about)


def _tenants(workspace: SlackWorkspace) -> list[str]:
    return sorted(workspace.tenants.values_list("slug", flat=True))


def add_route(route: SlackRoute, *, by: Principal, via: Surface) -> None:
    """Raises ``ValidationError``."""
    with atomic():
        route.full_clean()
        route.save()
        chosen = {name: _plain(value) for name, value in _columns(route).items() if value}
        _record(route, SlackChange.ROUTE_ADDED, edits_between({}, chosen), by, via)


def change_route(route_id: int, wanted: Mapping[str, Any], *, by: Principal, via: Surface) -> None:
    """Set these columns and no others. Raises ``SlackRoute.DoesNotExist``, ``ValidationError``."""
    with atomic():
        before = SlackRoute.objects.select_for_update().get(pk=route_id)
        route = SlackRoute(pk=route_id, **{**_columns(before), **wanted})
        route.full_clean(exclude={"id"})
        route.save(force_update=True)
        had = {name: _plain(value) for name, value in _columns(before).items()}
        has = {name: _plain(value) for name, value in _columns(route).items()}
        if edits := edits_between(had, has):
            _record(route, SlackChange.ROUTE_CHANGED, edits, by, via)


def remove_route(route_id: int, *, by: Principal, via: Surface) -> None:
    """Does nothing if somebody else has removed it."""
    with atomic():
        for route in SlackRoute.objects.select_for_update().filter(pk=route_id):
            _record(route, SlackChange.ROUTE_REMOVED, {}, by, via)
            route.delete()


def try_route(route: SlackRoute, *, by: Principal, via: Surface) -> None:
    """Post a sentence where messages of the route go. Raises ``NotSent``."""
    target = target_of(route)
    if not target:
        raise NotSent(_("That person is not linked to Slack, or has no role here any more."))
    with in_language_of_workspace(route.workspace):
        text = _("{who} tries whether Assent reaches you. Nothing is to be done.")
        text = escaped(text.format(who=by.name))
    try:
        app = app_for(route.workspace)
        call_slack(app, "chat.postMessage", channel=target, text=text, parse="none")
    except SlackApiError as refusal:
        error = error_of(refusal)
        raise NotSent(f"{error}. {REMEDY.get(error, '')}".strip()) from None
    except (Unreachable, NotNow, NoSuchApp, OSError) as failure:
        raise NotSent(str(failure)) from None
    _record(route, SlackChange.ROUTE_TRIED, {}, by, via)


def _columns(route: SlackRoute) -> dict[str, Any]:
    columns = [each.name for each in SlackRoute._meta.fields if not each.primary_key]
    return {name: getattr(route, name) for name in columns}


def _plain(value: Any) -> Any:
    """A related row by its key."""
    return value.pk if isinstance(value, Model) else value


def _record(
    route: SlackRoute, kind: SlackChange, edits: dict[str, Any], by: Principal, via: Surface
) -> None:
    record_change(
        f"slack_route:{route.pk}",
        kind,
        tenant=route.tenant_id,
        by=by,
        via=via,
        name=str(route)[:200],
        details={"edits": edits} if edits else {},
    )
