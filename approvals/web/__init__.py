"""The pages of the desk and its live updates."""
