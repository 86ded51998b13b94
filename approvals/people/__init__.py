"""People: their accounts, roles and rights, and notices of changes to them."""

from __future__ import annotations

from approvals.people.account_log import record_change, record_own
from approvals.people.independence import require_another_person
from approvals.people.notices import (
    NOTICES,
    dismiss_all_notices,
    dismiss_one_notice,
    notice_text,
    notices_for,
)
from approvals.people.own_address import address_asked_with, ask_for_address, confirm_address
from approvals.people.principals import name_of, names_of, principal_of
from approvals.people.reset_letters import ask_for_letter, letters_are_possible
from approvals.people.rights import FLAGS, event_details
from approvals.people.second_operator import (
    confirm_request,
    decline_request,
    knows_way_in,
    lets_decide,
    may_decide,
    may_make_link,
    person_of_request,
    requests_visible_to,
    words_of_ended_link,
)

__all__ = [
    "FLAGS",
    "NOTICES",
    "address_asked_with",
    "ask_for_address",
    "ask_for_letter",
    "confirm_address",
    "confirm_request",
    "decline_request",
    "dismiss_all_notices",
    "dismiss_one_notice",
    "event_details",
    "knows_way_in",
    "lets_decide",
    "letters_are_possible",
    "may_decide",
    "may_make_link",
    "name_of",
    "names_of",
    "notice_text",
    "notices_for",
    "person_of_request",
    "principal_of",
    "record_change",
    "record_own",
    "requests_visible_to",
    "require_another_person",
    "words_of_ended_link",
]
