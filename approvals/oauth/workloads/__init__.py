"""Agents that sign in by themselves: with a token of a trusted issuer, or a client certificate."""
