"""Transparency logs as the standards define them: RFC 6962 trees, C2SP signed notes.

Pure functions on bytes and text; they know nothing of our tables.
"""
