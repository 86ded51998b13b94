"""How the admin writes instants: 24 hours, with seconds and the time zone."""
