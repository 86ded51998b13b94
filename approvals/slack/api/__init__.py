"""Calls of Slack's Web API; the apps that may make them, and the workspaces that they are for."""

from approvals.slack.api.calls import NETWORK, Patience, Unreachable, call_slack, error_of
from approvals.slack.api.credentials import (
    NoSuchApp,
    SlackApp,
    app_of,
    client_of,
    is_configured,
    signed_by,
    slack_apps,
)
from approvals.slack.api.workspaces import app_for, connect_workspace, workspace_of

__all__ = [
    "NETWORK",
    "NoSuchApp",
    "Patience",
    "SlackApp",
    "Unreachable",
    "app_for",
    "app_of",
    "call_slack",
    "client_of",
    "connect_workspace",
    "error_of",
    "is_configured",
    "signed_by",
    "slack_apps",
    "workspace_of",
]
