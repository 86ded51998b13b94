"""Checks of a service that offers tools over HTTP."""
