"""Decisions of people: who may decide, what waits for a decision, and what is shown."""
