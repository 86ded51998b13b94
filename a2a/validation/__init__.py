"""Checking what clients and workers send: parts, JSON Schemas, spellings of the envelope."""
