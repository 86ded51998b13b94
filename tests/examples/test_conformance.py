"""The client in Python does what ``examples/conformance/client.json`` says, in both its forms."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from examples.conformance.player import FILE, TOKEN, Player
from examples.frameworks import assent_client
from examples.frameworks.assent_client import (
    Assent,
    AsyncAssent,
    BadSignature,
    NotAnswered,
    Refused,
    Unreachable,
    key_of,
    verify_webhook,
)

SAID = json.loads(FILE.read_text())
WEBHOOKS = SAID["webhooks"]
ERRORS = {"Refused": Refused, "Unreachable": Unreachable, "NotAnswered": NotAnswered}
FAILURES = {"BadSignature": BadSignature, "no secret": ValueError}


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    with Player() as player:
        yield player


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses take no time, and the clock goes on by them alone."""
    slept: list[float] = []

    async def pause(seconds: float) -> None:
        slept.append(seconds)

    clock = SimpleNamespace(
        sleep=slept.append, monotonic=lambda: sum(slept), time=lambda: WEBHOOKS["now"]
    )
    monkeypatch.setattr(assent_client, "time", clock)
    monkeypatch.setattr(assent_client, "asyncio", SimpleNamespace(sleep=pause))
    return slept


def called(case: dict[str, Any], url: str, client: type) -> Any:
    name, said = case["call"]
    on_question = (lambda _: case["on_question"]) if "on_question" in case else None

    async def soon() -> Any:
        desk = AsyncAssent(url, TOKEN, on_question=on_question)
        try:
            return await getattr(desk, name)(**said)
        finally:
            await desk.close()

    if client is AsyncAssent:
        return asyncio.run(soon())
    desk = Assent(url, TOKEN, on_question=on_question)
    try:
        return getattr(desk, name)(**said)
    finally:
        desk.close()


def as_said(found: Any, expected: Any) -> Any:
    """Of what was returned or raised, the members that the case has."""
    if isinstance(expected, list):
        return [as_said(one, said) for one, said in zip(found, expected, strict=True)]
    if not isinstance(expected, dict) or isinstance(found, dict):
        return found
    return {member: member_of(found, member) for member in expected}


def member_of(found: Any, name: str) -> Any:
    match name:
        case "class":
            return type(found).__name__
        case "message":
            return str(found)
        case "for_model":
            return found.for_model()
        case _:
            return getattr(found, name)


@pytest.mark.parametrize("client", [Assent, AsyncAssent])
@pytest.mark.parametrize("case", SAID["cases"], ids=lambda case: case["name"])
def test_the_client_does_what_the_case_says(player, pauses, case, client):
    player.play(case["name"])

    if "error" in case:
        with pytest.raises(ERRORS[case["error"]["class"]]) as raised:
            called(case, player.url, client)
        found, expected = raised.value, case["error"]
    else:
        found, expected = called(case, player.url, client), case["result"]

    assert player.faults() == []
    assert as_said(found, expected) == expected
    assert pauses == case.get("pauses", [])


@pytest.mark.parametrize("case", SAID["keys"], ids=lambda case: "/".join(case["parts"]))
def test_the_same_parts_make_the_same_key_in_every_language(case):
    assert key_of(*case["parts"]) == case["key"]


@pytest.mark.parametrize("case", WEBHOOKS["cases"], ids=lambda case: case["name"])
def test_a_webhook_is_read_or_refused(pauses, case):
    said = (case["headers"], case["body"].encode(), case["secret"], WEBHOOKS["tolerance_s"])

    if "error" in case:
        with pytest.raises(FAILURES[case["error"]]):
            verify_webhook(*said)
    else:
        assert verify_webhook(*said) == case["content"]


def test_a_refusal_reaches_another_process_whole():
    refusal = Refused(422, {"code": "plan_refused", "detail": "Too much.", "hint": "Ask less."})

    again = pickle.loads(pickle.dumps(refusal))

    assert (str(again), again.status) == ("Too much. Ask less.", 422)
    assert again.for_model() == refusal.for_model()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://assent.example", "assent.example"])
def test_an_address_that_is_none_is_said_at_once(url):
    with pytest.raises(ValueError, match="is no address"):
        Assent(url, TOKEN)


def test_the_player_notices_what_a_case_does_not_have(player):
    player.play("a question is answered by hand")
    desk = Assent(player.url, "another-token")

    with pytest.raises(Refused):
        desk.answer("another-id", "Another text.")
    with pytest.raises(Refused):
        desk.cancel("another-id")
    desk.close()

    said = "\n".join(player.faults())
    for fault in ("authorization is", "path is", "body is", "one too many: POST"):
        assert fault in said
