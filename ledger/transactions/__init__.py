"""The verbs of a transaction and its one writer of ``state``; enter through ``coordinator``."""
