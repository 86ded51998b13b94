"""The desk where people decide, and the Django project of all three rooms."""

__version__ = "0.2.0"  # the only place of it
