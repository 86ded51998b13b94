"""A click in Slack: acknowledged, decided, and shown in the message, with the real processes.

Slack itself is the strict one of the tests, on loopback: what its own servers and the way to them
take comes on top.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from io import StringIO
from typing import Any

from approvals.processes import COURIER, SWEEPER, WORKER
from bench.engines import bench_person, free_port, process, web
from bench.execution import prepared, wait_for_workers
from tests.fake_slack import FakeSlack, Message, SlackUser

CLICKS = 40


def measure(waiting: int = 0) -> dict[str, float]:
    """Milliseconds; ``waiting`` messages are queued meanwhile, and Slack takes one a second."""
    with FakeSlack() as slack, ExitStack() as stack:
        alice = _set_up(slack)
        port = free_port()
        slack.interactivity_url = f"http://localhost:{port}/slack/interactions"
        for kind in (WORKER, WORKER, COURIER, SWEEPER):
            stack.enter_context(process(*kind.command))
        stack.enter_context(web(port))
        wait_for_workers()
        prepared(CLICKS)
        slack.wait_for(lambda: len(slack.messages) >= CLICKS, 60)
        messages = slack.messages[:CLICKS]
        if waiting:
            slack.limits_posts = 1
            prepared(waiting)
        spans = [_approve(slack, message, alice) for message in messages]
    _forget()
    names = ("acknowledged", "decided", "rewritten")
    return {
        f"{name} {label} ms": _at([span[name] for span in spans], share)
        for name in names
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }


def _approve(slack: FakeSlack, message: Message, who: SlackUser) -> dict[str, float]:
    """The tool is irreversible: a click opens the modal, which is submitted with the word."""
    from ledger.models import Decision

    slack.click(message, "approve", who)
    modal = slack.modals[-1]
    word = next(text for text in _texts(modal.view) if text.startswith("Type ")).removeprefix(
        "Type "
    )
    decided = Decision.objects.count()
    began = time.monotonic()
    reaction = slack.submit(modal, {("typed", "typed"): word}, who)
    assert reaction.status == 200, reaction
    while Decision.objects.count() == decided:
        time.sleep(0.001)
    decided_at = time.monotonic()
    slack.wait_for(lambda: "Approved by" in FakeSlack.plain(message), 60)
    return {
        "acknowledged": reaction.seconds * 1000,
        "decided": (decided_at - began) * 1000,
        "rewritten": (time.monotonic() - began) * 1000,
    }


def _texts(thing: Any) -> list[str]:
    if isinstance(thing, dict):
        own = [thing["text"]] if isinstance(thing.get("text"), str) else []
        return own + [text for part in thing.values() for text in _texts(part)]
    return [text for part in thing for text in _texts(part)] if isinstance(thing, list) else []


def _set_up(slack: FakeSlack) -> SlackUser:
    from django.conf import settings
    from django.core.management import call_command

    from approvals.models import SlackIdentity, SlackWorkspace

    team = slack.add_team("T0BENCH", "Bench")
    slack.add_channel(team, "C0BENCH")
    alice = slack.add_user(team, "U0ALICE", name="alice")
    os.environ |= {
        "ASSENT_SLACK_API_URL": slack.api_url,
        "ASSENT_SLACK_BOT_TOKEN": team.bot_token,
        "ASSENT_SLACK_SIGNING_SECRET": team.signing_secret,
    }
    settings.SLACK_API_URL, settings.SLACK_BOT_TOKENS = slack.api_url, [team.bot_token]
    user, _cookie = bench_person("alice", "approver")
    call_command("slack_connect", tenant="bench", channel="C0BENCH", stdout=StringIO())
    workspace = SlackWorkspace.objects.get()
    SlackIdentity.objects.get_or_create(
        user=user, workspace=workspace, defaults={"slack_user_id": alice.id}
    )
    return alice


def _forget() -> None:
    """The other measurements are without Slack."""
    from django.conf import settings

    from ledger.models import Delivery

    settings.SLACK_BOT_TOKENS = []
    del os.environ["ASSENT_SLACK_BOT_TOKEN"]
    Delivery.objects.filter(channel="slack", state="waiting").update(state="done")


def _at(spans: list[float], share: float) -> float:
    return sorted(spans)[min(len(spans) - 1, int(len(spans) * share))]
