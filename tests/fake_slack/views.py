"""views.*"""

from __future__ import annotations

import copy
from typing import Any

from tests.fake_slack.access import Caller
from tests.fake_slack.block_kit import refuse_bad_view
from tests.fake_slack.errors import ApiError
from tests.fake_slack.lookups import required
from tests.fake_slack.records import Modal, Team, Trigger
from tests.fake_slack.state import TRIGGER_LIVES_S, State

Args = dict[str, Any]


def open_view(state: State, caller: Caller, args: Args) -> Args:
    trigger_id = required(args, "trigger_id")
    view = view_of(args, "modal")
    refuse_taken_external_id(state, caller.team, view)
    trigger = usable(state, caller, trigger_id)
    trigger.is_used = True
    modal = show(state, caller.team, trigger.user, view)
    return {"view": copy.deepcopy(modal.view)}


def update_view(state: State, caller: Caller, args: Args) -> Args:
    if not args.get("view_id") and not args.get("external_id"):
        required(args, "view_id")
    known = find(state, caller.team, args)
    kind = known.view["type"] if isinstance(known, Modal) else "home"
    view = view_of(args, kind)
    old = known.view if isinstance(known, Modal) else known
    if args.get("hash") and args["hash"] != old["hash"]:
        raise ApiError("hash_conflict")
    refuse_taken_external_id(state, caller.team, view, except_for=old["id"])
    if isinstance(known, Modal):
        replace(state, known, view)
        return {"view": copy.deepcopy(known.view)}
    user = next(one for one, home in state.homes.items() if home is known)
    state.homes[user] = state.full_view(caller.team, view, old["id"])
    return {"view": copy.deepcopy(state.homes[user])}


def publish(state: State, caller: Caller, args: Args) -> Args:
    user_id = required(args, "user_id")
    view = view_of(args, "home")
    user = state.users.get((caller.team.id, user_id))
    if user is None or user.is_bot or user.deleted:
        raise ApiError("user_not_found")
    old = state.homes.get(user_id)
    if args.get("hash") and (old is None or args["hash"] != old["hash"]):
        raise ApiError("hash_conflict")
    refuse_taken_external_id(state, caller.team, view, except_for=old["id"] if old else "")
    view_id = old["id"] if old else state.new_id("V")
    state.homes[user_id] = state.full_view(caller.team, view, view_id)
    return {"view": copy.deepcopy(state.homes[user_id])}


def view_of(args: Args, kind: str) -> Args:
    view = args.get("view")
    if not view:
        required(args, "view")
    refuse_bad_view(view, kind)
    return copy.deepcopy(view)


def usable(state: State, caller: Caller, trigger_id: str) -> Trigger:
    trigger = state.triggers.get(trigger_id)
    if trigger is None or trigger.team is not caller.team:
        raise ApiError("invalid_trigger_id")
    if trigger.is_used:
        raise ApiError("exchanged_trigger_id")
    if state.clock() - trigger.issued_at > TRIGGER_LIVES_S:
        raise ApiError("expired_trigger_id")
    return trigger


def show(state: State, team: Team, user: str, view: Args, above: Modal | None = None) -> Modal:
    view_id = state.new_id("V")
    root, previous = (above.root.view_id, above.view_id) if above else ("", "")
    full = state.full_view(team, view, view_id, root, previous)
    modal = Modal(team, view_id, user, full, above, [full])
    state.modals.append(modal)
    return modal


def replace(state: State, modal: Modal, view: Args) -> None:
    root, previous = modal.view["root_view_id"], modal.view["previous_view_id"]
    modal.view = state.full_view(modal.team, view, modal.view_id, root, previous or "")
    modal.versions.append(modal.view)
    modal.errors = {}


def find(state: State, team: Team, args: Args) -> Modal | Args:
    name = "id" if args.get("view_id") else "external_id"
    wanted = args.get("view_id") or args.get("external_id")
    for modal in state.modals:
        if modal.team is team and modal.view[name] == wanted and not modal.is_closed:
            return modal
    for home in state.homes.values():
        if home["team_id"] == team.id and home[name] == wanted:
            return home
    raise ApiError("not_found")


def refuse_taken_external_id(state: State, team: Team, view: Args, except_for: str = "") -> None:
    external_id = view.get("external_id")
    if not external_id:
        return
    shown = [one.view for one in state.modals if one.team is team and not one.is_closed]
    shown += [one for one in state.homes.values() if one["team_id"] == team.id]
    if any(one["external_id"] == external_id and one["id"] != except_for for one in shown):
        raise ApiError("duplicate_external_id")
