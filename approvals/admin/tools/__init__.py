"""Registered tools, their credentials and upstreams in the admin."""
