"""``manage.py write_messages``: the texts of the sources, and their translations compiled."""

from __future__ import annotations

import os
import re
from contextlib import chdir
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.core.management.commands import makemessages
from django.test.utils import override_settings

TRANSLATED = tuple(code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE)
# What people read is in the rooms and their templates.
NOT_READ = (
    *("tests/*", "bench/*", "docs/*", "examples/*", "static/*", "staticfiles/*"),
    *("build/*", "site/*"),  # made by `make site`
    "approvals/locale",  # where Django would write to, whatever folder it is given
)
# The same translations are the same file, whenever they are compiled.
WITHOUT_TIME = datetime(2026, 1, 1, tzinfo=UTC)


class Extraction(makemessages.Command):
    """Django's own, with entries in one order and never a guessed translation."""

    # The ledger's: English for machines, texts to translate for people.
    xgettext_options = [
        *makemessages.Command.xgettext_options,
        "--sort-output",
        "--keyword=Sentence:1",
        "--keyword=StandardReason:2",
    ]
    msgmerge_options = ["-q", "--backup=none", "--update", "--no-fuzzy-matching", "--sort-output"]


class Command(BaseCommand):
    help = "Writes the texts of the sources to approvals/locale, and compiles the translations."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        folder = Path(settings.LOCALE_PATHS[0])
        extract(folder)
        for language in TRANSLATED:
            catalogue_file(folder, language).with_suffix(".mo").write_bytes(
                compiled(catalogue(folder, language))
            )
            untranslated = [m.id for m in catalogue(folder, language) if m.id and not m.string]
            print(f"{language}: {len(untranslated)} texts without a translation")


def extract(folder: Path) -> None:
    """Bring the catalogues below ``folder`` up to date with the sources."""
    for language in TRANSLATED:
        catalogue_file(folder, language).parent.mkdir(parents=True, exist_ok=True)
    with chdir(settings.BASE_DIR), override_settings(LOCALE_PATHS=[os.fspath(folder)]):
        call_command(
            Extraction(),
            locale=list(TRANSLATED),
            ignore_patterns=list(NOT_READ),
            no_location=True,
            no_obsolete=True,
            verbosity=0,
        )
    for language in TRANSLATED:
        file = catalogue_file(folder, language)
        # The time of the last extraction would differ with each.
        file.write_text(re.sub(r'"POT-Creation-Date: [^"]*"\n', "", file.read_text()))


def catalogue_file(folder: Path, language: str) -> Path:
    return folder / language / "LC_MESSAGES" / "django.po"


def catalogue(folder: Path, language: str) -> Catalog:
    with catalogue_file(folder, language).open("rb") as file:
        return read_po(file, locale=language)


def compiled(translations: Catalog) -> bytes:
    """The catalogue in the format that gettext reads, without entries that have no translation."""
    translations.creation_date = translations.revision_date = WITHOUT_TIME
    written = BytesIO()
    write_mo(written, translations)
    return written.getvalue()
