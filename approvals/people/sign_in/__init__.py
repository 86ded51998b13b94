"""Ways in: one-time links, passkeys, second steps, and open sessions."""

from __future__ import annotations

from approvals.people.sign_in.account_access import (
    end_sessions,
    end_ways_in,
    has_way_in,
    remember_session,
    session_is_of,
    sessions_of,
)
from approvals.people.sign_in.links import (
    end_links,
    find_link,
    first_start_link,
    new_link,
    use_link,
)
from approvals.people.sign_in.passkeys import (
    begin_registering_passkey,
    begin_using_passkey,
    delete_passkey,
    key_of,
    passkeys_of,
    person_with_passkey,
    register_passkey,
    use_passkey,
)

__all__ = [
    "begin_registering_passkey",
    "begin_using_passkey",
    "delete_passkey",
    "end_links",
    "end_sessions",
    "end_ways_in",
    "find_link",
    "first_start_link",
    "has_way_in",
    "key_of",
    "new_link",
    "passkeys_of",
    "person_with_passkey",
    "register_passkey",
    "remember_session",
    "session_is_of",
    "sessions_of",
    "use_link",
    "use_passkey",
]
