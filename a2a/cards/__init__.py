"""Agent cards: ours and the plain dialect's, signed and published."""
