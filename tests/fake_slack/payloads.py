"""What Slack sends when somebody does something."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.fake_slack.block_kit import elements_of
from tests.fake_slack.forms import PICKED, SOME_OF, TYPED, chosen
from tests.fake_slack.lookups import message_as_json
from tests.fake_slack.records import Blocks, Channel, Ephemeral, Message, SlackUser, Team
from tests.fake_slack.state import State

VERIFICATION_TOKEN = "the deprecated token"
Json = dict[str, Any]
Matcher = str | Callable[[Json], bool]


def find_element(blocks: Blocks, matcher: Matcher) -> tuple[Json, Json]:
    """The one block and element that a person would act upon."""
    able = [
        (block, one)
        for block in blocks
        for one in elements_of(block)
        if block["type"] != "input" or block.get("dispatch_action", False)
    ]
    if isinstance(matcher, str):
        found = [pair for pair in able if pair[1].get("action_id") == matcher]
        found = found or [pair for pair in able if pair[1].get("value") == matcher]
    else:
        found = [pair for pair in able if matcher(pair[1])]
    shown = [(one.get("action_id"), one.get("value")) for _, one in able]
    assert found, f"there is no {matcher} among {shown}"
    assert len(found) == 1, f"{len(found)} elements are {matcher}, among {shown}"
    return found[0]


def action_of(block: Json, element: Json, choice: Any, ts: str) -> Json:
    kind = element["type"]
    action: Json = {
        "type": kind,
        "action_id": element["action_id"],
        "block_id": block["block_id"],
        "action_ts": ts,
    }
    if kind == "button":
        action["text"] = {"emoji": True, **element["text"]}
        action |= {name: element[name] for name in ("value", "style") if name in element}
    elif kind in SOME_OF:
        action["selected_options"] = [chosen(element, one) for one in choice or []]
    elif kind in TYPED:
        action["value"] = choice
    elif kind in PICKED:
        action[PICKED[kind][0]] = choice
    else:
        assert choice is not None, f"say which option of {element['action_id']}: choice=..."
        action["selected_option"] = chosen(element, choice)
    return action


def user_json(user: SlackUser) -> Json:
    return {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team.id}


def around(team: Team, user: SlackUser, kind: str) -> Json:
    """The keys that every interaction has."""
    return {
        "type": kind,
        "user": user_json(user),
        "api_app_id": team.app_id,
        "token": VERIFICATION_TOKEN,
        "team": {"id": team.id, "domain": team.domain},
        "enterprise": enterprise(team),
        "is_enterprise_install": False,
    }


def enterprise(team: Team) -> Json | None:
    if not team.enterprise_id:
        return None
    return {"id": team.enterprise_id, "name": f"{team.name} Enterprise"}


def in_message(message: Message | Ephemeral, channel: Channel, blocks: Blocks) -> Json:
    is_ephemeral = isinstance(message, Ephemeral)
    payload: Json = {
        "container": {
            "type": "message",
            "message_ts": message.ts,
            "channel_id": channel.id,
            "is_ephemeral": is_ephemeral,
        },
        "channel": {"id": channel.id, "name": channel.name},
    }
    if message.thread_ts:
        payload["container"]["thread_ts"] = message.thread_ts
    if isinstance(message, Message):
        payload["message"] = {**copy.deepcopy(message_as_json(message)), "blocks": blocks}
    return payload


def event_callback(state: State, team: Team, event: Json) -> Json:
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": team.id,
        "api_app_id": team.app_id,
        "event": event,
        "type": "event_callback",
        "event_id": state.new_id("Ev"),
        "event_time": int(state.clock()),
        "authorizations": [
            {
                "enterprise_id": team.enterprise_id or None,
                "team_id": team.id,
                "user_id": team.bot_user_id,
                "is_bot": True,
                "is_enterprise_install": False,
            }
        ],
        "is_ext_shared_channel": False,
    }


def slash_command(
    team: Team, user: SlackUser, channel: Channel, command: str, text: str
) -> dict[str, str]:
    fields = {
        "token": VERIFICATION_TOKEN,
        "team_id": team.id,
        "team_domain": team.domain,
        "channel_id": channel.id,
        "channel_name": channel.name,
        "user_id": user.id,
        "user_name": user.name,
        "command": command,
        "text": text,
        "api_app_id": team.app_id,
        "is_enterprise_install": "false",
    }
    if team.enterprise_id:
        fields |= {
            "enterprise_id": team.enterprise_id,
            "enterprise_name": f"{team.name} Enterprise",
        }
    return fields
