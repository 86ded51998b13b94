"""What people do in Slack, and how Slack tells the product."""

from __future__ import annotations

import copy
import json
from typing import Any
from urllib.parse import urlencode

from tests.fake_slack import forms, payloads
from tests.fake_slack.answers import take_command_answer, take_view_answer
from tests.fake_slack.payloads import Json, Matcher
from tests.fake_slack.post import FORM, Headers, send, signature_of, signed_headers
from tests.fake_slack.records import (
    Blocks,
    Envelope,
    Ephemeral,
    Message,
    Modal,
    Reaction,
    SlackUser,
    Team,
)
from tests.fake_slack.socket_mode import SocketMode
from tests.fake_slack.state import State

JSON = "application/json"


class People(State):
    mode: str = "http"
    interactivity_url: str = ""
    commands_url: str = ""
    events_url: str = ""
    patience_s: float = 3.0  # how long Slack waits for an acknowledgement
    socket: SocketMode

    def click(
        self,
        thing: Message | Ephemeral | Modal | Json,
        matcher: Matcher,
        user: SlackUser | str,
        *,
        choice: Any = None,
        values: forms.Values | None = None,
        as_of: Blocks | None = None,
        response_url: bool = True,
        trigger_id: str | None = None,
        **security: Any,
    ) -> Reaction:
        """``matcher`` is an action_id, else a value, or says of an element whether it is the one.

        ``as_of`` are older blocks: the click was under way when the message changed.
        """
        team = self.teams[thing["team_id"]] if isinstance(thing, dict) else thing.team
        assert as_of is not None or not getattr(thing, "is_deleted", False), "it is deleted"
        assert not getattr(thing, "is_closed", False), "the modal is closed"
        person = self.user_of(team, user)
        blocks = copy.deepcopy(self._blocks(thing) if as_of is None else as_of)
        block, element = payloads.find_element(blocks, matcher)
        trigger_id = self._trigger(team, person, trigger_id)
        payload = payloads.around(team, person, "block_actions")
        payload["trigger_id"] = trigger_id
        payload["actions"] = [payloads.action_of(block, element, choice, self.next_ts())]
        state = self._state_after(blocks, block, element, choice, values or {})
        if isinstance(thing, Message | Ephemeral):
            channel = self.channels[team.id, thing.channel]
            payload |= payloads.in_message(thing, channel, blocks)
            payload["state"] = {"values": state}
            if response_url:
                payload["response_url"] = self.issue_response_url()
        else:
            view = thing.view if isinstance(thing, Modal) else thing
            payload["container"] = {"type": "view", "view_id": view["id"]}
            payload["view"] = {**copy.deepcopy(view), "blocks": blocks, "state": {"values": state}}
        return self._interact(team, payload, trigger_id, **security)

    def submit(
        self,
        modal: Modal,
        values: forms.Values,
        user: SlackUser | str,
        *,
        as_of: Json | None = None,
        trigger_id: str | None = None,
        **security: Any,
    ) -> Reaction:
        """``as_of`` is an older version of the view, of ``modal.versions``."""
        assert not modal.is_closed, "the modal is closed"
        view = copy.deepcopy(as_of or modal.view)
        assert view.get("submit"), "the modal has no button to submit it"
        person = self.user_of(modal.team, user)
        state = forms.state_values(view["blocks"], values)
        forms.refuse_incomplete(view["blocks"], state)
        view["state"] = {"values": state}
        trigger_id = self._trigger(modal.team, person, trigger_id)
        payload = payloads.around(modal.team, person, "view_submission")
        payload |= {"trigger_id": trigger_id, "view": view, "response_urls": []}
        reaction = self._interact(modal.team, payload, trigger_id, **security)
        take_view_answer(self, modal, reaction)
        return reaction

    def close(self, modal: Modal, user: SlackUser | str, **security: Any) -> Reaction:
        """Without ``notify_on_close`` nothing is sent, and the reaction has status 0."""
        assert not modal.is_closed, "the modal is closed"
        with self.changing():
            modal.is_closed = True
        if not modal.view["notify_on_close"]:
            return Reaction(0, "", None, 0.0, False)
        person = self.user_of(modal.team, user)
        payload = payloads.around(modal.team, person, "view_closed")
        payload |= {"view": copy.deepcopy(modal.view), "is_cleared": False}
        return self._interact(modal.team, payload, "", **security)

    def open_home(
        self, user: SlackUser | str, team: Team | None = None, **security: Any
    ) -> Reaction:
        team = team or self.team_of(user)
        person = self.user_of(team, user)
        ts = self.next_ts()
        event: Json = {
            "type": "app_home_opened",
            "user": person.id,
            "channel": self.open_dm(team, person.id).id,
            "tab": "home",
            "event_ts": ts,
        }
        if person.id in self.homes:
            event["view"] = copy.deepcopy(self.homes[person.id])
        return self.send_event(team, event, **security)

    def send_event(self, team: Team, event: Json, **security: Any) -> Reaction:
        """Any event of the Events API."""
        callback = payloads.event_callback(self, team, event)
        return self._tell(team, "events_api", callback, JSON, self.events_url, **security)

    def url_verification(
        self, challenge: str, team: Team | None = None, **security: Any
    ) -> Reaction:
        """Always over HTTP: with Socket Mode there is no URL to verify."""
        team = team or next(iter(self.teams.values()))
        payload = {
            "token": payloads.VERIFICATION_TOKEN,
            "challenge": challenge,
            "type": "url_verification",
        }
        envelope = self._envelope(team, "events_api", payload, JSON, self.events_url)
        return self._post(envelope, "", **security)

    def command(
        self,
        user: SlackUser | str,
        text: str = "",
        command: str = "/assent",
        *,
        channel: str = "",
        team: Team | None = None,
        trigger_id: str | None = None,
        **security: Any,
    ) -> Reaction:
        """Without a channel it is typed in the direct messages with the app."""
        team = team or self.team_of(user)
        person = self.user_of(team, user)
        place = self.channels[team.id, channel] if channel else self.open_dm(team, person.id)
        fields = payloads.slash_command(team, person, place, command, text)
        trigger_id = self._trigger(team, person, trigger_id)
        fields |= {"response_url": self.issue_response_url(), "trigger_id": trigger_id}
        reaction = self._tell(
            team, "slash_commands", fields, FORM, self.commands_url, trigger_id, **security
        )
        take_command_answer(self, place, person, reaction)
        return reaction

    def post_raw(
        self,
        url: str,
        body: bytes,
        *,
        signing_secret: str,
        timestamp: str | float | None = None,
        signature: str | None = None,
        headers: Headers | None = None,
    ) -> Reaction:
        """Any bytes, well signed unless told otherwise; a header of None is left out."""
        at = str(int(self.clock()) if timestamp is None else timestamp)
        content_type = JSON if body[:1] == b"{" else FORM
        sent = signed_headers(body, content_type, signing_secret, at, signature)
        return send(url, body, {**sent, **(headers or {})}, patience_s=self.patience_s)

    def retry(self, reaction: Reaction) -> Reaction:
        """The same once more, as after a timeout."""
        envelope = reaction.envelope
        assert envelope is not None, "nothing was sent"
        if self.mode == "socket":
            return self.socket.deliver(
                envelope, patience_s=self.patience_s, trigger_id=reaction.trigger_id, retry=1
            )
        told = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
        return self._post(envelope, reaction.trigger_id, headers=told)

    def _blocks(self, thing: Message | Ephemeral | Modal | Json) -> Blocks:
        if isinstance(thing, Modal):
            return thing.view["blocks"]
        return thing["blocks"] if isinstance(thing, dict) else thing.blocks

    def _state_after(
        self, blocks: Blocks, block: Json, element: Json, choice: Any, values: forms.Values
    ) -> Json:
        filled = dict(values)
        if element["type"] not in forms.STATELESS:
            filled[block["block_id"], element["action_id"]] = choice
        return forms.state_values(blocks, filled)

    def _trigger(self, team: Team, user: SlackUser, given: str | None) -> str:
        return self.issue_trigger(team, user.id) if given is None else given

    def _interact(self, team: Team, payload: Json, trigger_id: str, **security: Any) -> Reaction:
        url = self.interactivity_url
        return self._tell(team, "interactive", payload, FORM, url, trigger_id, **security)

    def _tell(
        self,
        team: Team,
        kind: str,
        payload: Json,
        content_type: str,
        url: str,
        trigger_id: str = "",
        **security: Any,
    ) -> Reaction:
        override = security.get("body_override")
        if isinstance(override, dict):
            payload = merged(payload, security.pop("body_override"))
        envelope = self._envelope(team, kind, payload, content_type, url)
        if self.mode == "http":
            return self._post(envelope, trigger_id, **security)
        assert self.mode == "socket", f"mode is http or socket, not {self.mode}"
        asked = {name for name, value in security.items() if value}
        assert not asked, f"nothing is signed in Socket Mode: {asked}"
        return self.socket.deliver(envelope, patience_s=self.patience_s, trigger_id=trigger_id)

    def _envelope(
        self, team: Team, kind: str, payload: Json, content_type: str, url: str
    ) -> Envelope:
        if kind == "interactive":
            body = urlencode({"payload": json.dumps(payload)})
        else:
            body = urlencode(payload) if content_type == FORM else json.dumps(payload)
        return Envelope(team, kind, payload, url, body.encode(), content_type)

    def _post(
        self,
        envelope: Envelope,
        trigger_id: str,
        *,
        now: float | None = None,
        forged: bool = False,
        body_override: bytes | str | None = None,
        headers: Headers | None = None,
    ) -> Reaction:
        timestamp = str(int(self.clock() if now is None else now))
        secret = "the secret of somebody else" if forged else envelope.team.signing_secret
        body = envelope.body
        signature = signature_of(body, secret, timestamp)
        if body_override is not None:  # changed on the way, after it was signed
            body = body_override.encode() if isinstance(body_override, str) else body_override
        sent = signed_headers(body, envelope.content_type, secret, timestamp, signature)
        return send(
            envelope.url,
            body,
            {**sent, **(headers or {})},
            patience_s=self.patience_s,
            trigger_id=trigger_id,
            envelope=envelope,
        )


def merged(base: Json, over: Json) -> Json:
    result = dict(base)
    for name, value in over.items():
        old = result.get(name)
        both = isinstance(value, dict) and isinstance(old, dict)
        result[name] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result
