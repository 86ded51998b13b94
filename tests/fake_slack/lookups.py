"""auth.test, users.*, conversations.* and apps.connections.open."""

from __future__ import annotations

import secrets
from typing import Any

from tests.fake_slack.access import Caller
from tests.fake_slack.errors import ApiError
from tests.fake_slack.records import Channel, Message, SlackUser
from tests.fake_slack.state import State

Args = dict[str, Any]


def auth_test(state: State, caller: Caller, args: Args) -> Args:
    team = caller.team
    answer: Args = {
        "url": f"https://{team.domain}.slack.com/",
        "team": team.name,
        "user": "assent",
        "team_id": team.id,
        "user_id": team.bot_user_id,
        "bot_id": team.bot_id,
        "is_enterprise_install": False,
    }
    if team.enterprise_id:
        answer["enterprise_id"] = team.enterprise_id
    return answer


def users_info(state: State, caller: Caller, args: Args) -> Args:
    caller.needs("users:read")
    user = state.users.get((caller.team.id, required(args, "user")))
    if user is None:
        raise ApiError("user_not_found")
    return {"user": as_json(user, shows_email="users:read.email" in caller.team.scopes)}


def users_lookup_by_email(state: State, caller: Caller, args: Args) -> Args:
    caller.needs("users:read.email")
    email = required(args, "email").lower()
    for user in state.users.values():
        if user.team is caller.team and user.email.lower() == email and not user.deleted:
            return {"user": as_json(user, shows_email=True)}
    raise ApiError("users_not_found")


def conversations_info(state: State, caller: Caller, args: Args) -> Args:
    channel = readable(state, caller, required(args, "channel"), "read")
    return {"channel": channel_as_json(channel)}


def conversations_open(state: State, caller: Caller, args: Args) -> Args:
    caller.needs("im:write")
    users = [one for one in str(args.get("users", "")).split(",") if one]
    if not users:
        raise ApiError("users_list_not_supplied")
    if len(users) > 1:
        raise ApiError("not_enough_users", messages=["the fake opens no group messages"])
    refuse_bad_recipient(state, caller, users[0], disabled="user_disabled")
    known = (caller.team.id, f"D{users[0][1:]}") in state.channels
    channel = state.open_dm(caller.team, users[0])
    return {"no_op": known, "already_open": known, "channel": {"id": channel.id}}


def conversations_history(state: State, caller: Caller, args: Args) -> Args:
    channel = member_channel(state, caller, args)
    found = [
        one
        for one in state.messages
        if one.team is caller.team and one.channel == channel.id
        if not one.thread_ts or one.thread_ts == one.ts
    ]
    found.sort(key=lambda one: one.ts, reverse=True)
    return page(within(found, args), args)


def conversations_replies(state: State, caller: Caller, args: Args) -> Args:
    channel = member_channel(state, caller, args)
    ts = required(args, "ts")
    here = [one for one in state.messages if (one.team, one.channel) == (caller.team, channel.id)]
    parent = next((one for one in here if one.ts == ts), None)
    if parent is None:
        raise ApiError("thread_not_found")
    root = parent.thread_ts or parent.ts
    replies = sorted((one for one in here if one.thread_ts == root), key=lambda one: one.ts)
    first = [one for one in here if one.ts == root]
    return page(first + within([one for one in replies if one.ts != root], args), args)


def apps_connections_open(state: State, caller: Caller, args: Args) -> Args:
    ticket = secrets.token_hex(16)
    state.tickets[ticket] = caller.token
    return {"url": f"{state.socket_url}link/?ticket={ticket}&app_id={caller.team.app_id}"}


def required(args: Args, name: str) -> str:
    if not args.get(name):
        missing = f"[ERROR] missing required field: {name}"
        raise ApiError("invalid_arguments", messages=[missing])
    return str(args[name])


def refuse_bad_recipient(state: State, caller: Caller, user_id: str, *, disabled: str) -> None:
    user = state.users.get((caller.team.id, user_id))
    if user is None:
        raise ApiError("user_not_found")
    if user.deleted:
        raise ApiError(disabled)
    if user.is_bot:
        raise ApiError("cannot_dm_bot")


def readable(state: State, caller: Caller, channel_id: str, what: str) -> Channel:
    channel = state.channels.get((caller.team.id, channel_id))
    if channel is None or (channel.is_private and not channel.has_bot):
        raise ApiError("channel_not_found")
    caller.needs(f"{channel.family}:{what}")
    return channel


def member_channel(state: State, caller: Caller, args: Args) -> Channel:
    channel = readable(state, caller, required(args, "channel"), "history")
    if not channel.has_bot:
        raise ApiError("not_in_channel")
    return channel


def is_true(value: Any) -> bool:
    return value in (True, "1", "true", "True", 1)


def within(found: list[Message], args: Args) -> list[Message]:
    oldest = float(args.get("oldest") or 0)
    latest = float(args.get("latest") or "inf")
    if is_true(args.get("inclusive")):
        return [one for one in found if oldest <= float(one.ts) <= latest]
    return [one for one in found if oldest < float(one.ts) < latest]


def page(found: list[Message], args: Args) -> Args:
    limit = int(args.get("limit") or 100)
    if not 1 <= limit <= 1000:
        raise ApiError("invalid_limit")
    cursor = str(args.get("cursor") or "start:0").partition(":")[2]
    if not cursor.isdecimal():
        raise ApiError("invalid_cursor")
    start = int(cursor)
    shows_metadata = is_true(args.get("include_all_metadata"))
    shown = [message_as_json(one, shows_metadata) for one in found[start : start + limit]]
    answer: Args = {"messages": shown, "has_more": start + limit < len(found)}
    if answer["has_more"]:
        answer["response_metadata"] = {"next_cursor": f"next:{start + limit}"}
    return answer


def message_as_json(message: Message, shows_metadata: bool = False) -> Args:
    answer: Args = {"type": "message", "ts": message.ts, "text": message.text}
    if message.is_ours:
        team = message.team
        answer |= {"user": team.bot_user_id, "bot_id": team.bot_id, "app_id": team.app_id}
    else:
        answer["user"] = message.author
    answer["team"] = message.team.id
    if message.blocks:
        answer["blocks"] = message.blocks
    if message.thread_ts:
        answer["thread_ts"] = message.thread_ts
    if message.edits:
        answer["edited"] = {"user": message.team.bot_user_id, "ts": message.ts}
    if shows_metadata and message.metadata:
        answer["metadata"] = message.metadata
    return answer


def channel_as_json(channel: Channel) -> Args:
    answer: Args = {
        "id": channel.id,
        "is_archived": channel.is_archived,
        "is_im": bool(channel.im_user),
        "context_team_id": channel.team.id,
    }
    if channel.im_user:
        return {**answer, "user": channel.im_user}
    return {
        **answer,
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": not channel.is_private,
        "is_group": channel.is_private,
        "is_private": channel.is_private,
        "is_member": channel.has_bot,
    }


def as_json(user: SlackUser, *, shows_email: bool) -> Args:
    profile = {"real_name": user.name, "display_name": user.name}
    if shows_email and user.email:
        profile["email"] = user.email
    return {
        "id": user.id,
        "team_id": user.team.id,
        "name": user.name,
        "real_name": user.name,
        "deleted": user.deleted,
        "is_bot": user.is_bot,
        "is_app_user": False,
        "profile": profile,
    }
