"""Decisions of people: who may decide, what waits for a decision, and what is shown."""

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
from approvals.desk.pace import must_type
from approvals.desk.signatures import either_of, holders_of, managers_in_words, signatures_of
from approvals.desk.state_lines import error_in_words, state_line, who_was_faster
from approvals.desk.viewers import BROKEN, MINE, Viewer
from approvals.desk.votes import Voters, Votes, voters_of, votes_of

__all__ = [
    "ANSWERERS",
    "BROKEN",
    "LARGEST_FILES",
    "MINE",
    "MOST_FILES",
    "Viewer",
    "Voters",
    "Votes",
    "Work",
    "confirmation_word",
    "either_of",
    "error_in_words",
    "give_work",
    "holders_of",
    "lent_to",
    "managers_in_words",
    "may_revise",
    "must_type",
    "names_of_target",
    "seems_confirmed",
    "signatures_of",
    "signs_of",
    "skill_for",
    "skills_for",
    "state_line",
    "takes_files",
    "task_made_of",
    "voters_of",
    "votes_of",
    "who_was_faster",
    "word_for_machines",
]
