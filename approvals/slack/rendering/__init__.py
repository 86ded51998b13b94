"""Rows as Slack's blocks, modals and texts."""
