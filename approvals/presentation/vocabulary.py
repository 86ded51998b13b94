"""The labels of the ledger's and the hub's states, in the language of who reads them.

The rooms below speak English only: what they seal, log and tell machines is the same for everybody.
"""

from __future__ import annotations

from django.utils.translation import gettext as _, gettext_noop

from ledger import handed_over

WORDS = frozenset(
    {
        # of transactions
        gettext_noop("waiting for sign-off"),
        gettext_noop("refused before anything was held"),
        gettext_noop("signed off, waiting for a worker"),
        gettext_noop("being carried out"),
        gettext_noop("done, with a receipt"),
        gettext_noop("started, outcome unknown"),
        gettext_noop("signed off, handed to the agent"),
        gettext_noop("letting go of what was held"),
        gettext_noop("ended without any effect"),
        gettext_noop("could not be carried out"),
        gettext_noop("being compensated"),
        gettext_noop("done, then compensated"),
        # why they ended
        gettext_noop("rejected"),
        gettext_noop("expired"),
        gettext_noop("canceled by the agent"),
        gettext_noop("the hold lapsed"),
        gettext_noop("the agent did not act in time"),
        gettext_noop("planned, and not entered"),
        gettext_noop("withdrawn by an operator"),
        gettext_noop("failed"),
        # of tasks and questions
        gettext_noop("waiting for a worker"),
        gettext_noop("being worked on"),
        gettext_noop("waiting for an answer"),
        gettext_noop("completed"),
        gettext_noop("canceled"),
        gettext_noop("rejected before it began"),
        gettext_noop("answered"),
        gettext_noop("not answered in time"),
        gettext_noop("withdrawn: the task has ended"),
        # what an operator can say of an outcome, and what became of it
        gettext_noop("committed"),
        gettext_noop("nothing happened"),
        gettext_noop("retry"),
        gettext_noop("keep receipt"),
        gettext_noop("not ours"),
        gettext_noop("dealt with"),
        gettext_noop("withdraw"),
        gettext_noop("let go"),
        gettext_noop("compensate"),
        gettext_noop("Approved"),
        gettext_noop("Rejected"),
        gettext_noop("Expired"),
        gettext_noop("Canceled"),
        gettext_noop("Refused"),
        # of deliveries and changes
        gettext_noop("waits for a second operator"),
        gettext_noop("confirmed"),
        gettext_noop("declined"),
        # of what a change says in detail
        gettext_noop("role"),
        gettext_noop("scopes"),
        gettext_noop("review percent"),
    }
)


def in_words(label: object) -> str:
    """The label of a state, translated."""
    text = str(label)
    return _(text) if text else ""


def first_large(text: str) -> str:
    """With a capital at the beginning; the rest stays, as nouns of other languages need it."""
    return text[:1].upper() + text[1:]


def title_of(slug: str) -> str:
    """``refund_customer`` as ``Refund customer``; of a function of the agent's own, its name."""
    words = slug.removeprefix(handed_over.PREFIX).replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
