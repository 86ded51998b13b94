"""chat.*"""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.fake_slack.access import Caller
from tests.fake_slack.block_kit import refuse_bad_blocks
from tests.fake_slack.errors import ApiError
from tests.fake_slack.lookups import is_true, message_as_json, required
from tests.fake_slack.records import Channel, Ephemeral, Message
from tests.fake_slack.state import State

Args = dict[str, Any]
TEXT_MAX = 40_000
METADATA_MAX = 16_000


def post_message(state: State, caller: Caller, args: Args) -> Args:
    caller.needs("chat:write")
    channel = postable(state, caller, required(args, "channel"), delivers_to_users=True)
    text, blocks = content(args)
    metadata = metadata_of(args)
    thread_ts = thread_of(state, channel, args)
    refuse_bursts(state, channel)
    message = Message(
        caller.team,
        channel.id,
        state.next_ts(),
        text,
        state.with_ids(blocks),
        thread_ts,
        metadata,
        parse=str(args.get("parse") or ""),
        link_names=is_true(args.get("link_names")),
    )
    state.messages.append(message)
    shown = message_as_json(message, shows_metadata=True)
    return {"channel": channel.id, "ts": message.ts, "message": shown}


def update(state: State, caller: Caller, args: Args) -> Args:
    caller.needs("chat:write")
    message = own_message(state, caller, args, "cant_update_message")
    changed = {**args}
    if "blocks" not in changed and "text" in changed:
        changed["blocks"] = message.blocks  # what is not said anew stays
    text, blocks = content(changed)
    metadata = metadata_of(args)
    message.edits.append((message.text, message.blocks))
    message.text, message.blocks = text, state.with_ids(blocks)
    if "metadata" in args:
        message.metadata = metadata
    shown = message_as_json(message, shows_metadata=True)
    return {"channel": message.channel, "ts": message.ts, "text": text, "message": shown}


def delete(state: State, caller: Caller, args: Args) -> Args:
    caller.needs("chat:write")
    message = own_message(state, caller, args, "cant_delete_message")
    message.is_deleted = True
    state.messages.remove(message)
    return {"channel": message.channel, "ts": message.ts}


def post_ephemeral(state: State, caller: Caller, args: Args) -> Args:
    caller.needs("chat:write")
    channel = postable(state, caller, required(args, "channel"), delivers_to_users=False)
    user = required(args, "user")
    text, blocks = content(args)
    known = state.users.get((caller.team.id, user))
    if known is None or known.deleted or not channel.has_member(user):
        raise ApiError("user_not_in_channel")
    thread_ts = thread_of(state, channel, args)
    ts = state.next_ts()
    blocks = state.with_ids(blocks)
    state.ephemerals.append(Ephemeral(caller.team, channel.id, user, ts, text, blocks, thread_ts))
    return {"message_ts": ts}


def postable(state: State, caller: Caller, channel_id: str, *, delivers_to_users: bool) -> Channel:
    channel = state.channels.get((caller.team.id, channel_id))
    if channel is None and delivers_to_users:
        user = state.users.get((caller.team.id, channel_id))
        if user and user.is_bot:
            raise ApiError("cannot_dm_bot")
        if user and not user.deleted:
            channel = state.open_dm(caller.team, channel_id)
    if channel is None or (channel.is_private and not channel.has_bot):
        raise ApiError("channel_not_found")
    if channel.is_archived:
        raise ApiError("is_archived")
    if not channel.has_bot and not (delivers_to_users and may_post_uninvited(caller)):
        raise ApiError("not_in_channel")
    return channel


def may_post_uninvited(caller: Caller) -> bool:
    return "chat:write.public" in caller.team.scopes


def content(args: Args) -> tuple[str, list[dict[str, Any]]]:
    text = args.get("text") or ""
    blocks = args.get("blocks") or []
    if not isinstance(text, str):
        raise ApiError("invalid_arguments", messages=["[ERROR] text must be a string"])
    if isinstance(blocks, str) or not isinstance(blocks, list):
        raise ApiError("invalid_blocks_format")
    if not text.strip() and not blocks:
        raise ApiError("no_text")
    if len(text) > TEXT_MAX:
        raise ApiError("msg_too_long")
    refuse_bad_blocks(blocks)
    return text, copy.deepcopy(blocks)


def metadata_of(args: Args) -> Args | None:
    metadata = args.get("metadata")
    if not metadata:
        return None
    if (
        not isinstance(metadata, dict)
        or set(metadata) != {"event_type", "event_payload"}
        or not (isinstance(metadata["event_type"], str) and metadata["event_type"])
        or not isinstance(metadata["event_payload"], dict)
        or any(isinstance(one, dict | list) for one in metadata["event_payload"].values())
    ):
        raise ApiError("invalid_metadata_format")
    if len(json.dumps(metadata)) > METADATA_MAX:
        raise ApiError("metadata_too_large")
    return copy.deepcopy(metadata)


def thread_of(state: State, channel: Channel, args: Args) -> str:
    """The first message of the thread, also when the caller names a reply."""
    if not args.get("thread_ts"):
        return ""
    ts = str(args["thread_ts"])
    for one in state.messages:
        if (one.team, one.channel, one.ts) == (channel.team, channel.id, ts):
            return one.thread_ts or one.ts
    raise ApiError("thread_not_found")


def own_message(state: State, caller: Caller, args: Args, refusal: str) -> Message:
    channel_id, ts = required(args, "channel"), required(args, "ts")
    channel = state.channels.get((caller.team.id, channel_id))
    if channel is None:
        raise ApiError("channel_not_found")
    for one in state.messages:
        if (one.team, one.channel, one.ts) == (caller.team, channel_id, ts):
            if not one.is_ours:
                raise ApiError(refusal)
            if channel.is_archived:
                raise ApiError("is_archived")
            return one
    raise ApiError("message_not_found")


def refuse_bursts(state: State, channel: Channel) -> None:
    if state.limits_posts is None:
        return
    now = state.clock()
    key = (channel.team.id, channel.id)
    recent = [at for at in state.post_times.get(key, []) if now - at < 1.0]
    if len(recent) >= state.limits_posts:
        raise ApiError("ratelimited", status=429, retry_after_s=1)
    state.post_times[key] = [*recent, now]
