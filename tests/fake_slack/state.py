"""All that the fake knows, behind one lock that tells of each change."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.fake_slack.block_kit import elements_of
from tests.fake_slack.faults import Fault
from tests.fake_slack.records import (
    APP_ID,
    APP_TOKEN,
    DEFAULT_SCOPES,
    SIGNING_SECRET,
    Call,
    Channel,
    Ephemeral,
    Message,
    Modal,
    ResponseUrlUse,
    SlackUser,
    Team,
    Trigger,
)

T = TypeVar("T")
TRIGGER_LIVES_S = 3.0


class State:
    api_url: str = ""
    socket_url: str = ""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.changed = threading.Condition(threading.RLock())
        self.stopping = threading.Event()
        self.messages: list[Message] = []
        self.ephemerals: list[Ephemeral] = []
        self.modals: list[Modal] = []
        self.homes: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []
        self.response_url_uses: list[ResponseUrlUse] = []
        self.limits_posts: int | None = None  # messages per second and channel
        self.teams: dict[str, Team] = {}
        self.users: dict[tuple[str, str], SlackUser] = {}
        self.channels: dict[tuple[str, str], Channel] = {}
        self.triggers: dict[str, Trigger] = {}
        self.tickets: dict[str, str] = {}  # of Socket Mode: ticket -> app token
        self.response_urls: dict[str, float] = {}  # url -> when it was given out
        self.post_times: dict[tuple[str, str], list[float]] = {}
        self.faults: list[Fault] = []
        self.bugs: list[str] = []  # what no Slack would get to see; said when the fake stops
        self._changes = 0
        self._last_ts = 0
        self._numbers = itertools.count(1)

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self.changed:
            yield
            self._changes += 1
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], T], seconds: float = 10) -> T:
        """The first true value of the condition, asked again at each change of the fake."""
        deadline = time.monotonic() + seconds
        while True:
            seen = self._changes
            if value := condition():
                return value
            left = deadline - time.monotonic()
            assert left > 0, f"not within {seconds} s; calls so far: {self._heard()}"
            with self.changed:
                # Some conditions look at the product too, which tells nobody of its changes.
                self.changed.wait_for(lambda: self._changes != seen, min(left, 0.05))  # noqa: B023

    def _heard(self) -> str:
        return ", ".join(f"{one.method} {one.status}" for one in self.calls[-20:]) or "none"

    def add_team(
        self,
        team_id: str = "T0ACME",
        name: str = "Acme",
        *,
        bot_token: str = "",
        signing_secret: str = SIGNING_SECRET,
        app_token: str = APP_TOKEN,
        scopes: tuple[str, ...] = DEFAULT_SCOPES,
        enterprise_id: str = "",
        app_id: str = APP_ID,
    ) -> Team:
        token = bot_token or f"xoxb-{team_id}-fake"
        bot_user_id = f"U0BOT{team_id[1:]}"
        bot_id = f"B0BOT{team_id[1:]}"
        team = Team(
            team_id,
            name,
            token,
            signing_secret,
            app_token,
            tuple(scopes),
            enterprise_id,
            app_id,
            bot_user_id,
            bot_id,
        )
        with self.changing():
            assert all(token != one.bot_token for one in self.teams.values()), "token is taken"
            self.teams[team_id] = team
            self.users[team_id, bot_user_id] = SlackUser(team, bot_user_id, "assent", "", True)
        return team

    def add_user(
        self,
        team: Team,
        user_id: str,
        *,
        name: str = "",
        email: str = "",
        is_bot: bool = False,
        deleted: bool = False,
    ) -> SlackUser:
        user = SlackUser(team, user_id, name or user_id.lower(), email, is_bot, deleted)
        with self.changing():
            self.users[team.id, user_id] = user
        return user

    def add_channel(
        self,
        team: Team,
        channel_id: str,
        *,
        name: str = "",
        has_bot: bool = True,
        is_archived: bool = False,
        is_private: bool = False,
        members: set[str] | None = None,
    ) -> None:
        channel = Channel(
            team, channel_id, name or channel_id.lower(), has_bot, is_archived, is_private, members
        )
        with self.changing():
            self.channels[team.id, channel_id] = channel

    def open_dm(self, team: Team, user_id: str) -> Channel:
        channel_id = f"D{user_id[1:]}"
        with self.changing():
            return self.channels.setdefault(
                (team.id, channel_id),
                Channel(team, channel_id, "directmessage", True, False, im_user=user_id),
            )

    def say(
        self, team: Team, channel_id: str, user_id: str, text: str, *, thread_ts: str = ""
    ) -> Message:
        """A person writes a message of their own."""
        with self.changing():
            message = Message(team, channel_id, self.next_ts(), text, [], thread_ts, author=user_id)
            self.messages.append(message)
        return message

    def next_ts(self) -> str:
        with self.changed:
            self._last_ts = max(int(self.clock() * 1_000_000), self._last_ts + 100)
            return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def new_id(self, letter: str) -> str:
        return f"{letter}0{next(self._numbers):07d}"

    def issue_trigger(self, team: Team, user_id: str) -> str:
        trigger_id = f"{next(self._numbers)}.{team.id}.{secrets.token_hex(16)}"
        with self.changed:
            self.triggers[trigger_id] = Trigger(trigger_id, team, user_id, self.clock())
        return trigger_id

    def issue_response_url(self) -> str:
        url = self.api_url.removesuffix("api/") + f"response/{secrets.token_hex(12)}"
        with self.changed:
            self.response_urls[url] = self.clock()
        return url

    def user_of(self, team: Team, user: SlackUser | str) -> SlackUser:
        if isinstance(user, SlackUser):
            return user
        found = self.users.get((team.id, user))
        assert found is not None, f"{user} is not a user of {team.id}"
        return found

    def team_of(self, user: SlackUser | str) -> Team:
        if isinstance(user, SlackUser):
            return user.team
        teams = [one.team for one in self.users.values() if one.id == user]
        assert len(teams) == 1, f"{user} is a user of {len(teams)} teams; pass the SlackUser"
        return teams[0]

    def with_ids(self, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Slack names blocks and elements that came without a name."""
        for block in blocks:
            block.setdefault("block_id", f"b{next(self._numbers)}")
            for element in elements_of(block):
                element.setdefault("action_id", f"a{next(self._numbers)}")
        return blocks

    def full_view(
        self, team: Team, view: dict[str, Any], view_id: str, root: str = "", previous: str = ""
    ) -> dict[str, Any]:
        """The view as Slack gives it back."""
        defaults: dict[str, Any] = {
            "callback_id": "",
            "private_metadata": "",
            "external_id": "",
            "title": None,
            "submit": None,
            "close": None,
            "clear_on_close": False,
            "notify_on_close": False,
        }
        return {
            **defaults,
            **view,
            "blocks": self.with_ids(view["blocks"]),
            "id": view_id,
            "team_id": team.id,
            "app_id": team.app_id,
            "app_installed_team_id": team.id,
            "bot_id": team.bot_id,
            "root_view_id": root or view_id,
            "previous_view_id": previous or None,
            "hash": f"{int(self.clock())}.{secrets.token_hex(4)}",
            "state": {"values": {}},
        }
