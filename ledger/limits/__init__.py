"""Limits on one agent, tenant, token or address, and what happened when it wanted more.

``terms`` has the limits and their defaults, ``stocks`` limits rows that may be open at once,
``rates`` what comes in a second or a day, ``slots`` what runs at once, ``refusals`` counts.
"""
