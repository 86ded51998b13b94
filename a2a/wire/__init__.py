"""Rows to and from the protocol's messages. Only this package knows the A2A SDK's types."""
