"""Contents that surfaces share: labels of events and values, answer forms, what must be shown."""

from approvals.presentation.amounts import (
    amount_in_short,
    amount_written,
    number_written,
    reader_locale,
    slip_in_words,
    span_written,
)
from approvals.presentation.decided import decided_in_words, kind_in_words
from approvals.presentation.details import (
    Detail,
    Difference,
    Value,
    details_of,
    differences_in,
)
from approvals.presentation.evidence import Piece, folded_piece, names_of_pdfs, pieces_of
from approvals.presentation.grants import (
    agent_names,
    argument_label,
    grant_in_words,
    standing_address,
)
from approvals.presentation.script_texts import texts_for_scripts
from approvals.presentation.sentences import (
    in_words,
    kept_in_words,
    refusal_and_hint,
    refusal_in_words,
)
from approvals.presentation.states import (
    ENDINGS,
    LET_GO,
    outcome_label,
    shown_state,
    state_label,
    state_sentence,
    with_next_step,
)
from approvals.presentation.text_files import key_of_file, name_of_file, text_of_file
from approvals.presentation.times import (
    day_of_month,
    instant,
    length,
    moment,
    span_of,
    to_the_minute,
)

__all__ = [
    "ENDINGS",
    "LET_GO",
    "Detail",
    "Difference",
    "Piece",
    "Value",
    "agent_names",
    "amount_in_short",
    "amount_written",
    "argument_label",
    "day_of_month",
    "decided_in_words",
    "details_of",
    "differences_in",
    "folded_piece",
    "grant_in_words",
    "in_words",
    "instant",
    "kept_in_words",
    "key_of_file",
    "kind_in_words",
    "length",
    "moment",
    "name_of_file",
    "names_of_pdfs",
    "number_written",
    "outcome_label",
    "pieces_of",
    "reader_locale",
    "refusal_and_hint",
    "refusal_in_words",
    "shown_state",
    "slip_in_words",
    "span_of",
    "span_written",
    "standing_address",
    "state_label",
    "state_sentence",
    "text_of_file",
    "texts_for_scripts",
    "to_the_minute",
    "with_next_step",
]
