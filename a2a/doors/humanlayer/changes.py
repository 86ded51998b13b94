"""Changes of bindings of functions to tools, as the audit log seals them."""

from __future__ import annotations

from django.db.models import TextChoices

from ledger.errors import Sentence


class BindingChange(TextChoices):
    """The values never change: they are sealed."""

    BOUND = "function_bound", Sentence("had a tool carry out a function of an agent")
    UNBOUND = "function_unbound", Sentence("left a function to the agent again")
    ASKED = "function_binding_asked", Sentence("asked for another tool for a function of an agent")
    DECLINED = (
        "function_binding_declined",
        Sentence("declined another tool for a function of an agent"),
    )
