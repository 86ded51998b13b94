"""Decisions of people, whichever surface they come from: who may decide, and what is shown."""
