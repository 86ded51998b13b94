"""Text for Slack that mentions nobody and links nothing, whatever agents and people wrote.

Their texts go into ``plain_text`` or the elements of ``rich_text``, which Slack does not
interpret. ``mrkdwn``, which it does, holds only what Assent wrote, and values of fixed form.
https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

import re
from datetime import datetime

from django.utils.translation import gettext as _, gettext_noop
from slack_sdk.models.blocks import (
    MarkdownTextObject,
    PlainTextObject,
    RichTextBlock,
    RichTextElementParts as Part,
    RichTextQuoteElement,
    RichTextSectionElement,
)

Piece = Part.Text | Part.Date

SECTION_MOST, HEADER_MOST, BUTTON_MOST = 3000, 150, 75  # characters that Slack takes
# Slack writes the date and the time, in the language of the reader's own Slack.
DATE_FORMAT = gettext_noop("{date_short_pretty} at {time}")


def shortened(text: str, most: int) -> str:
    """At most ``most`` UTF-16 units, because Slack may count so; ends in … if it was longer."""
    if _units(text) <= most:
        return text
    kept = text[: most - 1]
    while _units(kept) > most - 1:
        kept = kept[: -max(1, (_units(kept) - most + 1) // 2)]
    return kept.rstrip() + "…"


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def plain(text: str, most: int = SECTION_MOST) -> PlainTextObject:
    """Shown as it is: no mention, no link, no :emoji:. Never empty, which Slack would refuse."""
    return PlainTextObject(text=shortened(text, most).strip() or "-", emoji=False)


def mrkdwn(text: str) -> MarkdownTextObject:
    """Slack's markup; never around a text of an agent or a person."""
    return MarkdownTextObject(text=text or "-", verbatim=True)


def escaped(text: str, most: int = 1000) -> str:
    """For the ``text`` of a message: what notifications show and screen readers read."""
    short = shortened(one_line(text), most)
    while _units(safe := _without_markup(short)) > most:
        # An & becomes five characters: shorten by as much as that made the text too long.
        short = shortened(short, _units(short) - 1 - (_units(safe) - most) // 5)
    return safe


def _without_markup(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text


def mrkdwn_date(at: datetime) -> str:
    """In the reader's own time zone and language; the fallback is for clients that cannot."""
    return f"<!date^{int(at.timestamp())}^{_(DATE_FORMAT)}|{_in_utc(at)}>"


def regular_date(at: datetime) -> Part.Date:
    """The same, for rich text."""
    return Part.Date(timestamp=int(at.timestamp()), format=_(DATE_FORMAT), fallback=_in_utc(at))


def _in_utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def rich(*parts: Piece) -> RichTextBlock:
    return RichTextBlock(elements=[RichTextSectionElement(elements=list(parts))])


def quoted(label: str, text: str, most: int = 1500) -> RichTextBlock:
    """A label, and below it a text of an agent or a person, as a quotation."""
    return RichTextBlock(
        elements=[
            RichTextSectionElement(elements=[bold(label)]),
            RichTextQuoteElement(elements=[regular(shortened(text.strip(), most))]),
        ]
    )


def regular(text: str) -> Part.Text:
    return Part.Text(text=text or "-")


def bold(text: str) -> Part.Text:
    return Part.Text(text=text or "-", style=Part.TextStyle(bold=True))


def fixed(text: str) -> Part.Text:
    return Part.Text(text=text or "-", style=Part.TextStyle(code=True))


def pieces(sentence: str, **named: str | Piece) -> list[Piece]:
    """The sentence with its ``{placeholders}`` filled in, of which some are not plain."""
    pieces: list[Piece] = []
    text = ""
    for number, piece in enumerate(re.split(r"\{(\w+)\}", sentence)):
        value = named[piece] if number % 2 else piece
        if isinstance(value, str):
            text += value
            continue
        pieces += [regular(text), value] if text else [value]
        text = ""
    return [*pieces, regular(text)] if text else pieces
