"""Decisions of people: who may decide, what waits for a decision, and what is shown."""

from approvals.desk.brakes import (
    SPANS,
    brake_of,
    may_lift,
    put_in_words,
    scope_in_words,
    scopes_within,
    span_of,
    standing_for,
    stopped_among,
    why_stopped,
)
from approvals.desk.confirmations import (
    confirmation_word,
    names_of_target,
    seems_confirmed,
    signs_of,
    word_for_machines,
)
from approvals.desk.giving import (
    ANSWERERS,
    LARGEST_FILES,
    MOST_FILES,
    Work,
    give_work,
    lent_to,
    may_revise,
    skill_for,
    skills_for,
    takes_files,
    task_made_of,
)
from approvals.desk.pace import must_type, undo_offered_until
from approvals.desk.seats import Seat, seats_of
from approvals.desk.signatures import (
    either_of,
    holders_of,
    managers_in_words,
    signatures_of,
    why_signed,
)
from approvals.desk.state_lines import error_in_words, state_line, who_was_faster
from approvals.desk.viewers import BROKEN, MINE, Viewer
from approvals.desk.votes import Voters, Votes, voters_of, votes_of

__all__ = [
    "ANSWERERS",
    "BROKEN",
    "LARGEST_FILES",
    "MINE",
    "MOST_FILES",
    "SPANS",
    "Seat",
    "Viewer",
    "Voters",
    "Votes",
    "Work",
    "brake_of",
    "confirmation_word",
    "either_of",
    "error_in_words",
    "give_work",
    "holders_of",
    "lent_to",
    "managers_in_words",
    "may_lift",
    "may_revise",
    "must_type",
    "names_of_target",
    "put_in_words",
    "scope_in_words",
    "scopes_within",
    "seats_of",
    "seems_confirmed",
    "signatures_of",
    "signs_of",
    "skill_for",
    "skills_for",
    "span_of",
    "standing_for",
    "state_line",
    "stopped_among",
    "takes_files",
    "task_made_of",
    "undo_offered_until",
    "voters_of",
    "votes_of",
    "who_was_faster",
    "why_signed",
    "why_stopped",
    "word_for_machines",
]
