"""Changes of bindings of functions to tools, as the audit log seals them."""

from __future__ import annotations

from enum import StrEnum

from ledger.errors import Sentence


class BindingChange(StrEnum):
    """The values never change: they are sealed."""

    BOUND = "function_bound"
    UNBOUND = "function_unbound"
    ASKED = "function_binding_asked"
    DECLINED = "function_binding_declined"


DESCRIPTIONS: dict[str, str] = {
    BindingChange.BOUND: Sentence("had a tool carry out a function of an agent"),
    BindingChange.UNBOUND: Sentence("left a function to the agent again"),
    BindingChange.ASKED: Sentence("asked for another tool for a function of an agent"),
    BindingChange.DECLINED: Sentence("declined another tool for a function of an agent"),
}
