"""Rows ⇄ JSON: of the protocol (``to_json``, ``remote``), of the plain dialect, and the SDK."""
