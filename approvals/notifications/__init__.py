"""Telling people that something waits for them: in their browsers, and by e-mail."""
