"""Slack: messages out, interactions in, and who is who.

The web pages use what is exported here; the admin and the page that links accounts use
``identities``.
"""

from approvals.slack.api.credentials import is_configured
from approvals.slack.messages.recipients import places_of

__all__ = ["is_configured", "places_of"]
