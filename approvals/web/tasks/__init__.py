"""Pages of tasks: list, detail, giving work."""
