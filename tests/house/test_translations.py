"""Every text that people read is translated, wholly, and as the sources have it now."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo
from django.conf import settings

from approvals.management.commands.write_messages import (
    TRANSLATED,
    catalogue,
    catalogue_file,
    extract,
)
from tests.house.source import ROOT

FOLDER = ROOT / "approvals" / "locale"
# %(name)s, %s, {name} and the whole of a tag: what a translation has to have too.
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd]|\{\w*\}|<[^>]+>")


@pytest.fixture(params=TRANSLATED)
def language(request) -> str:
    return request.param


@pytest.fixture
def translations(language) -> Catalog:
    return catalogue(FOLDER, language)


def messages(translations: Catalog) -> Iterator[Message]:
    return (message for message in translations if message.id)


def forms(text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def test_there_is_a_language_besides_english():
    assert [code for code, _ in settings.LANGUAGES] == ["en", *TRANSLATED]
    assert TRANSLATED


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="gettext is not installed")
def test_the_catalogue_has_the_texts_of_the_sources(tmp_path, language, translations):
    extract(tmp_path)
    in_sources = {(message.context, message.id) for message in catalogue(tmp_path, language)}

    assert in_sources == {(message.context, message.id) for message in translations}, (
        "run `make messages` and translate what is new"
    )


def test_every_text_is_translated(translations):
    missing = [m.id for m in messages(translations) if not all(forms(m.string)) or m.fuzzy]

    assert len(list(messages(translations))) > 10
    assert missing == []


def test_a_translation_has_the_placeholders_of_its_text(translations):
    wrong = [
        message.id
        for message in messages(translations)
        for form in forms(message.string)
        if not placeholders(form) <= placeholders(*forms(message.id))
        or not placeholders(*forms(message.string)) >= placeholders(forms(message.id)[-1])
    ]

    assert wrong == []


def placeholders(*texts: str) -> set[str]:
    return {found for text in texts for found in PLACEHOLDER.findall(text)}


def test_the_compiled_catalogue_is_of_these_translations(language, translations):
    with catalogue_file(FOLDER, language).with_suffix(".mo").open("rb") as file:
        in_use = by_text(read_mo(file))

    assert in_use == by_text(translations), "run `make messages`"


def context_of(message: Message) -> str:
    """Babel reads it as bytes from a compiled catalogue."""
    context = message.context or ""
    return context.decode() if isinstance(context, bytes) else context


def by_text(translations: Catalog) -> dict[tuple[str, ...], tuple[str, ...]]:
    return {
        (context_of(message), *forms(message.id)): forms(message.string)
        for message in messages(translations)
    }
