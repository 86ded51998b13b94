"""Socket Mode: Slack's requests come through a WebSocket that Assent opens; no public address.

The app-level token takes the place of a signature: only Slack sends on that connection, and only
for the apps that have the token.
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

from approvals.slack.api import NETWORK, SlackApp, slack_apps
from approvals.slack.interactions import receive

logger = logging.getLogger(__name__)

RECONNECT_AFTER_S = 5.0


def listen(stop: threading.Event) -> None:
    """Serve until ``stop`` is set, over one connection per app token, renewed when it is lost."""
    by_token: dict[str, list[SlackApp]] = {}
    for app in slack_apps():
        if app.app_token:
            by_token.setdefault(app.app_token, []).append(app)
    threads = [
        threading.Thread(target=_listen, args=(token, served, stop), name="slack-socket")
        for token, served in by_token.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _listen(token: str, served: list[SlackApp], stop: threading.Event) -> None:
    client = SocketModeClient(
        app_token=token,
        web_client=WebClient(base_url=settings.SLACK_API_URL, retry_handlers=[]),
        auto_reconnect_enabled=True,
    )
    client.socket_mode_request_listeners.append(
        lambda socket, request: _acknowledge(client, request, served)
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
            stop.wait(RECONNECT_AFTER_S)
    finally:
        client.close()


def _acknowledge(
    client: SocketModeClient, request: SocketModeRequest, served: list[SlackApp]
) -> None:
    payload: Any = None
    try:
        match request.type:
            case "interactive":
                payload = receive.interaction(request.payload, served)
            case "slash_commands":
                payload = receive.command(request.payload, served)
            case "events_api":
                receive.event(request.payload, served)
    except Exception:
        logger.exception("a request of Slack could not be handled")
    client.send_socket_mode_response(
        SocketModeResponse(envelope_id=request.envelope_id, payload=payload)
    )
