"""Slack: messages out, interactions in, and who is who.

What the pages of the desk need is exported here. ``identities`` is for the admin and the
page that links accounts, ``setup`` for the commands that set Slack up, and ``socket_mode`` for the
process that keeps a WebSocket to Slack: no other process loads its client.
"""

from approvals.slack.api.credentials import is_configured
from approvals.slack.messages.recipients import places_of

__all__ = ["is_configured", "places_of"]
