"""Formats of instants in the admin: 24 hours, with seconds and the time zone."""
