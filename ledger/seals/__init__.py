"""Hashes of rows and events, intent digests, lawful erasures."""
