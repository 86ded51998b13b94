"""Checks of a service that offers tools over HTTP. A Django app that may be left out."""
