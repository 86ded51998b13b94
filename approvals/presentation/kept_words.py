"""What the rooms below keep about an ending or a failure, in the language of who reads it.

It is kept in English, filled in, because it is sealed and machines read it. Here it is recognised
by its form; what an agent, a tool or a person wrote has none of these, and stays as it is.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext as _, gettext_noop

FORMS = (
    # of transactions
    gettext_noop("The contract asks for no approver."),
    gettext_noop("Nobody decided in time."),
    gettext_noop("Nobody decided in time; silence is not consent."),
    gettext_noop("It was planned, and could not be entered."),
    gettext_noop("A worker brought this receipt after the transaction had been settled."),
    gettext_noop("Attempt {number} with the same operation key."),
    gettext_noop("No tool named {tool} is deployed here."),
    gettext_noop("Its agent redeemed no permit in time."),
    gettext_noop("Its agent fell silent after it had redeemed the permit."),
    gettext_noop("The agent posted this receipt after its time to act."),
    gettext_noop("The agent says that nothing happened."),
    gettext_noop("Its retention was over."),
    # of tasks
    gettext_noop("Canceled by {name}."),
    gettext_noop("The task above it was canceled."),
    gettext_noop("The worker stopped sending heartbeats."),
    gettext_noop("The time for the task was over."),
    gettext_noop("Waiting for sign-off."),
    gettext_noop("The process that had claimed it did not finish in time."),
    gettext_noop("It could not be prepared in its time. Nothing will be carried out."),
    gettext_noop("The remote agent canceled it."),
    gettext_noop("The remote agent does not know the task any more."),
    gettext_noop("The input does not fit the skill's schema."),
    gettext_noop("The time that its sender gave it is over."),
    gettext_noop("{skill} has {number} open tasks, as many as it takes."),
    gettext_noop("The agent's card has changed: {drift}"),
    gettext_noop("The skill asks for the scope {scope}."),
    # of requests on a git bus
    gettext_noop("Put back by an operator."),
    gettext_noop("Its claim did not arrive."),
)
# What the protocol says to machines when nobody answered; the wire keeps it as it is.
UNANSWERED = "INPUT_REQUIRED not resolved within {time} timeout"
LONGEST = 1000  # characters of what is looked at


def _pattern(form: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", form)
    written = [
        f"(?P<{part}>.+?)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
    ]
    return re.compile("".join(written), re.DOTALL)


PATTERNS = [(_pattern(form), form) for form in FORMS]


def kept_in_words(text: str) -> str:
    """The kept sentence, translated; any other text as it is."""
    sought = text.strip()
    if len(sought) > LONGEST:
        return text
    if found := _pattern(UNANSWERED).fullmatch(sought):
        return _("Nobody answered within {time}.").format(**found.groupdict())
    for pattern, form in PATTERNS:
        if found := pattern.fullmatch(sought):
            return _(form).format(**found.groupdict())
    return text
