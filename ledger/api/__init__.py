"""The REST interface for agents."""
