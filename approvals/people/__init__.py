"""People: their accounts, roles and rights, and notices of changes to them."""

from __future__ import annotations

from approvals.people.independence import require_another_person
from approvals.people.principals import name_of, names_of, principal_of
from approvals.people.rights import FLAGS, event_details, record, record_own

__all__ = [
    "FLAGS",
    "event_details",
    "name_of",
    "names_of",
    "principal_of",
    "record",
    "record_own",
    "require_another_person",
]
