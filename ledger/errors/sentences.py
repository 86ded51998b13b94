"""Texts that are sealed and sent in English, and from which people's languages are made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.db import models


class Sentence(str):
    """English, filled in; with it ``template`` and ``values``, from which others translate it.

    It is a string like any other, so what is sealed, stored, logged or sent to machines is English
    whatever language is active. ``reads`` is what machines read where that has other words.

    >>> Sentence("{tool} declares no compensation.", tool="refund")
    'refund declares no compensation.'
    """

    template: str
    values: dict[str, Any]
    code: str = ""  # of a standard reason

    def __new__(cls, template: str, *, reads: str = "", **values: Any) -> Sentence:
        text = reads or (template.format(**values) if values else template)
        sentence = super().__new__(cls, text)
        sentence.template, sentence.values = template, values
        return sentence

    def __getnewargs__(self) -> tuple[str]:
        return (str(self),)  # pickled and copied: the text, then its attributes


class StandardReason:
    """A reason that Assent itself gives. Rows keep its code and values beside the English text.

    >>> StandardReason("example", "Attempt {number}.")(number=2)
    'Attempt 2.'
    """

    def __init__(self, code: str, template: str, *, reads: str = "") -> None:
        self.code, self.template, self.reads = code, template, reads
        if BY_CODE.setdefault(code, self) is not self:
            raise ValueError(f"two standard reasons have the code {code}")

    def __call__(self, **values: Any) -> Sentence:
        sentence = Sentence(self.template, reads=self.reads.format(**values), **values)
        sentence.code = self.code
        return sentence


BY_CODE: dict[str, StandardReason] = {}
SOURCE = "_source"  # ends the name of the column with code and values of a text


def source_of(text: object) -> dict[str, Any] | None:
    """Code and values of a standard reason, as JSON; ``None`` for what somebody wrote."""
    if not isinstance(text, Sentence) or not text.code:
        return None
    return {"code": text.code, "values": text.values}


def with_sources(model: type[models.Model], columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns to write, and the source of each text among them that keeps one."""
    sources = {name + SOURCE: source_of(columns[name]) for name in _texts(model) if name in columns}
    return {**columns, **sources}


@cache
def _texts(model: type[models.Model]) -> list[str]:
    names = [field.name for field in model._meta.concrete_fields]
    return [name.removesuffix(SOURCE) for name in names if name.endswith(SOURCE)]


def kept(row: models.Model, name: str) -> str:
    """The text in this column, as the standard reason that it is; what somebody wrote as it is.

    Only the text is sealed: a source that says something else is not believed.
    """
    text, source = getattr(row, name), getattr(row, name + SOURCE)
    reason = BY_CODE.get(source["code"]) if source else None
    if reason is None:
        return str(text)
    try:
        sentence = reason(**source["values"])
    except KeyError:  # the code had other values once
        return str(text)
    return sentence if sentence == text else str(text)


def cut(text: str, most: int) -> str:
    """The first characters; a short text as the sentence that it is."""
    return text if len(text) <= most else text[:most]
