"""Tools: what one is, how it is called, and what is watched of those elsewhere."""
