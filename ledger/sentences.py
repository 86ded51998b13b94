"""Sentences that machines read in English, and people in their own language."""

from __future__ import annotations

from typing import Any


class Sentence(str):
    """English, filled in; with it ``template`` and ``values``, from which others translate it.

    It is a string like any other, so what is sealed, stored, logged or sent to machines is English
    whatever language is active. ``reads`` is what machines read where that has other words.

    >>> Sentence("{tool} declares no compensation.", tool="refund")
    'refund declares no compensation.'
    """

    template: str
    values: dict[str, Any]

    def __new__(cls, template: str, *, reads: str = "", **values: Any) -> Sentence:
        text = reads or (template.format(**values) if values else template)
        sentence = super().__new__(cls, text)
        sentence.template, sentence.values = template, values
        return sentence

    def __getnewargs__(self) -> tuple[str]:
        return (str(self),)  # pickled and copied: the text, then its attributes
