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
from approvals.people.principals import (
    name_of,
    names_of,
    principal_of,
    role_in_words,
    user_of,
)
from approvals.people.reset_letters import ask_for_letter, letters_are_possible
from approvals.people.rights import FLAGS, event_details
from approvals.people.second_operator import (
    KINDS as ACCOUNT_KINDS,
    account_requests_of,
    is_alone,
    is_only_manager,
    keep_as_viewer,
    keeps_own_address,
    knows_way_in,
    lets_decide,
    may_decide,
    may_make_link,
    person_of_request,
    words_for_new_role,
)
from approvals.people.signing_keys import (
    KeyState,
    assertion_from,
    begin_enrolling,
    begin_signing,
    check_is_ready,
    end_key,
    enrol,
    enrolled,
    how_many_sign,
    listed,
    that_sign,
    waiting_time_of,
)

__all__ = [
    "ACCOUNT_KINDS",
    "FLAGS",
    "NOTICES",
    "KeyState",
    "account_requests_of",
    "address_asked_with",
    "ask_for_address",
    "ask_for_letter",
    "assertion_from",
    "begin_enrolling",
    "begin_signing",
    "check_is_ready",
    "confirm_address",
    "dismiss_all_notices",
    "dismiss_one_notice",
    "end_key",
    "enrol",
    "enrolled",
    "event_details",
    "how_many_sign",
    "is_alone",
    "is_only_manager",
    "keep_as_viewer",
    "keeps_own_address",
    "knows_way_in",
    "lets_decide",
    "letters_are_possible",
    "listed",
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
    "require_another_person",
    "role_in_words",
    "that_sign",
    "user_of",
    "waiting_time_of",
    "words_for_new_role",
]
