"""Socket Mode: Slack's calls come through a WebSocket that we opened; no public address needed.

The app-level token stands for the signature: only Slack speaks on that connection, and only for
the apps that have the token.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from django.conf import settings
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from approvals.slack.api.calls import NETWORK
from approvals.slack.api.credentials import SlackApp, apps
from approvals.slack.interactions import receive

logger = logging.getLogger(__name__)

AGAIN_S = 5.0


def listen(stop: threading.Event) -> None:
    """Until ``stop`` is set; each app has a connection of its own, made again when it is lost."""
    by_token: dict[str, list[SlackApp]] = {}
    for app in apps():
        if app.app_token:
            by_token.setdefault(app.app_token, []).append(app)
    threads = [
        threading.Thread(target=_listen, args=(token, mine, stop), name="slack-socket")
        for token, mine in by_token.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _listen(token: str, mine: list[SlackApp], stop: threading.Event) -> None:
    client = SocketModeClient(
        app_token=token,
        web_client=WebClient(base_url=settings.SLACK_API_URL, retry_handlers=[]),
        auto_reconnect_enabled=True,
    )
    client.socket_mode_request_listeners.append(
        lambda socket, request: _answer(client, request, mine)
    )
    try:
        while not stop.is_set():
            try:
                if not client.is_connected():
                    client.connect()
            except (SlackApiError, *NETWORK) as failure:
                logger.warning("no socket to Slack: %s", failure)
            except Exception:
                logger.exception("the socket to Slack failed")
            stop.wait(AGAIN_S)
    finally:
        client.close()


def _answer(client: SocketModeClient, request: SocketModeRequest, mine: list[SlackApp]) -> None:
    payload: Any = None
    try:
        match request.type:
            case "interactive":
                payload = receive.handle(request.payload, mine)
            case "slash_commands":
                payload = receive.command(request.payload, mine)
            case "events_api":
                receive.event(request.payload, mine)
    except Exception:
        logger.exception("a message of Slack could not be handled")
    client.send_socket_mode_response(
        SocketModeResponse(envelope_id=request.envelope_id, payload=payload)
    )
