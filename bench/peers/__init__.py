"""Assent beside DBOS, LangGraph, agent-ledger and the A2A SDK's server."""
