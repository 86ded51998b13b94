"""Lanes of the web process for pages and REST; docs/decisions/lanes.md has those of all rooms.

Where work waits longer than ``within``, all threads are held up, most likely by a database that
stands still.
"""

from __future__ import annotations

from django.conf import settings

from ledger.api.fast.readings import MOST_OF_ONE
from ledger.foundation.lanes import Lane

pages = Lane("pages", settings.PAGE_THREADS, most_waiting=500, within=5.0)
# Hashing a password takes half a second of a processor: a storm of sign-ins delays no page, and
# that of one address no other address.
hashing = Lane("hashing", 2, most_of_one=1, most_waiting_of_one=9, most_waiting=200, within=10.0)
# Secrets of clients are hashed, too, and keys of issuers read: people sign in meanwhile.
tokens = Lane("tokens", 2, most_of_one=1, most_waiting_of_one=9, most_waiting=200, within=10.0)
# An export takes as long as its reader: a few slow downloads delay no page.
exports = Lane("exports", 2, most_waiting=10, within=5.0)
# Proposals may wait for the plan of a tool, which delays no page.
proposals = Lane(
    "proposals",
    settings.PLAN_THREADS + settings.PAGE_THREADS,
    most_waiting=500,
    within=5.0,
)
# Calls of tools that only read wait for services elsewhere, which delays no page.
readings = Lane("readings", 2 * MOST_OF_ONE, most_waiting=500, within=5.0)
