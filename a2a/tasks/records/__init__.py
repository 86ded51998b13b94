"""Digests, sealed content and decision records of tasks."""
