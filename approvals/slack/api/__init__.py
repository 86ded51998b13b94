"""Calls of Slack's Web API, and the credentials for them."""
