"""Telling agents and owning services of events by signed HTTP requests."""
