"""Slack: messages out, interactions in, and who is who."""
