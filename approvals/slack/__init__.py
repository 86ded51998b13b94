"""Slack: messages out, interactions in, and who is who.

What the pages of the desk and the admin need is exported here. ``setup`` is for the commands that
set Slack up, and ``socket_mode`` for the process that keeps a WebSocket to Slack: no other process
loads its client.
"""

from approvals.slack.api import is_configured
from approvals.slack.identities import (
    NotLinked,
    ask_to_link,
    link_account,
    link_request_of,
    propose_link,
    unlink_account,
    workspaces_for,
)
from approvals.slack.messages.recipients import places_of

__all__ = [
    "NotLinked",
    "ask_to_link",
    "is_configured",
    "link_account",
    "link_request_of",
    "places_of",
    "propose_link",
    "unlink_account",
    "workspaces_for",
]
