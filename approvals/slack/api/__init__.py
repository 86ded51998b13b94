"""Calls of Slack's Web API; the apps that may make them, and the workspaces that they are for."""
