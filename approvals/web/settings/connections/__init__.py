"""Connections of this installation with other agents: an overview, and a page for each."""
