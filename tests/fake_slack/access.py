"""Who calls the Web API, and whether they may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fake_slack.errors import ApiError
from tests.fake_slack.records import Team
from tests.fake_slack.state import State


@dataclass(frozen=True)
class Caller:
    team: Team
    token: str

    @property
    def is_app(self) -> bool:
        return self.token.startswith("xapp-")

    def needs(self, *scopes: str) -> None:
        missing = [one for one in scopes if one not in self.team.scopes]
        if missing:
            provided = ",".join(self.team.scopes)
            raise ApiError("missing_scope", needed=",".join(missing), provided=provided)


def token_of(headers: Mapping[str, str], args: dict[str, Any]) -> str:
    kind, _, token = headers.get("Authorization", "").partition(" ")
    said = str(args.pop("token", ""))
    return token.strip() if kind.lower() == "bearer" else said


def caller_of(state: State, token: str) -> Caller:
    if not token:
        raise ApiError("not_authed")
    for team in state.teams.values():
        if token == team.bot_token:
            if team.auth_error:
                raise ApiError(team.auth_error)
            return Caller(team, token)
        if token == team.app_token:
            return Caller(team, token)
    raise ApiError("invalid_auth")
