"""Agents elsewhere that do tasks for us: their cards, sending, polling, push."""
