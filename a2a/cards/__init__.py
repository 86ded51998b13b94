"""Agent cards: ours and the plain dialect's, signed and published."""

from a2a.cards.cards import extended_card, v03_card
from a2a.cards.signatures import signed_claims

__all__ = [
    "extended_card",
    "signed_claims",
    "v03_card",
]
