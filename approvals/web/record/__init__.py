"""The place Record: decisions, changes of people and set-up, policies."""
