"""Sign-in of agents (OAuth 2.1): people connect programs as agents of theirs."""
