"""Figures of the operations page."""
