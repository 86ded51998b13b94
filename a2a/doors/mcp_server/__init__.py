"""Assent as a server of the Model Context Protocol: every tool of the catalogue, at ``/mcp``.

Without sessions, so that any live process answers any request. No tool here can decide.
"""
