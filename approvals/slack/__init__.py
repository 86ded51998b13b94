"""Slack: messages out, interactions in, and who is who.

A Django app that may be left out. ``socket_mode`` is for the process that keeps a WebSocket to
Slack: no other process loads its client.
"""
