"""Text for Slack in which nobody is mentioned, nothing is linked and nothing breaks out.

Somebody else's words go into ``plain_text`` or the elements of ``rich_text``, which Slack does not
interpret; a value within our own mrkdwn is escaped inline code, and ``verbatim`` is set.
https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

from datetime import datetime

from slack_sdk.models.blocks import (
    MarkdownTextObject,
    PlainTextObject,
    RichTextBlock,
    RichTextElementParts as Part,
    RichTextQuoteElement,
    RichTextSectionElement,
)

SECTION_MOST, FIELD_MOST, HEADER_MOST, BUTTON_MOST = 3000, 2000, 150, 75


def shortened(text: str, most: int) -> str:
    """At most so many UTF-16 units, which is how Slack may count; ends in … if it was longer."""
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


def marked(text: str) -> MarkdownTextObject:
    """Our own mrkdwn, around values that went through ``code``."""
    return MarkdownTextObject(text=text or "-", verbatim=True)


def escaped(text: str, most: int = 1000) -> str:
    """For the ``text`` of a message: what notifications and screen readers say."""
    said = shortened(one_line(text), most)
    while _units(safe := _without_markup(said)) > most:
        # An & becomes five characters; what is too long by that is shortened once more.
        said = shortened(said, _units(said) - 1 - (_units(safe) - most) // 5)
    return safe


def _without_markup(text: str) -> str:
    for sign, other in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, other)
    return text


def code(text: str, most: int = 300) -> str:
    """A value as inline code: a field of a payload, an id."""
    safe = escaped(text.replace("`", "'"), most)
    return f"`{safe}`" if safe else "-"


def date(at: datetime, said: str = "{date_short_pretty} at {time}") -> str:
    """In the reader's own time zone and language; the fallback is for clients that cannot."""
    return f"<!date^{int(at.timestamp())}^{said}|{at:%Y-%m-%d %H:%M} UTC>"


def rich(*parts: Part.Text | Part.Date) -> RichTextBlock:
    return RichTextBlock(elements=[RichTextSectionElement(elements=list(parts))])


def quoted(label: str, text: str, most: int = 1500) -> RichTextBlock:
    """A label, and below it somebody's words, marked as such."""
    return RichTextBlock(
        elements=[
            RichTextSectionElement(elements=[bold(label)]),
            RichTextQuoteElement(elements=[words(shortened(text.strip(), most))]),
        ]
    )


def words(text: str) -> Part.Text:
    return Part.Text(text=text or "-")


def bold(text: str) -> Part.Text:
    return Part.Text(text=text or "-", style=Part.TextStyle(bold=True))


def fixed(text: str) -> Part.Text:
    return Part.Text(text=text or "-", style=Part.TextStyle(code=True))


def moment(at: datetime) -> Part.Date:
    """As ``date``, for rich text."""
    return Part.Date(
        timestamp=int(at.timestamp()),
        format="{date_short_pretty} at {time}",
        fallback=f"{at:%Y-%m-%d %H:%M} UTC",
    )
