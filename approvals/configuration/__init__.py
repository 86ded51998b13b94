"""Parts of the settings: variables of the environment, the log, the authorization server."""

from __future__ import annotations

from approvals.configuration.environment import commands, flag, names, text
from approvals.configuration.logging_settings import logging_settings
from approvals.configuration.oauth_settings import oauth_settings

__all__ = ["commands", "flag", "logging_settings", "names", "oauth_settings", "text"]
