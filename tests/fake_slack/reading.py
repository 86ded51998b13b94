"""What a reader would see: the visible words, whom they call, where they lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fake_slack.records import Ephemeral, Message, Modal

Readable = Message | Ephemeral | Modal | dict[str, Any] | list[dict[str, Any]]

ANGLED_MENTION = re.compile(r"<(?:[@#][A-Z0-9]+|![a-z]+(?:\^[A-Z0-9]+)?)(?:[|^][^>]*)?>")
BARE_MENTION = re.compile(r"(?<![\w<!|])[@#][a-z][\w.-]*", re.IGNORECASE)
ANGLED_LINK = re.compile(r"<((?:https?://|mailto:|tel:|slack:)[^>|]*)(?:\|[^>]*)?>", re.IGNORECASE)
BARE_LINK = re.compile(r"(?<![<|\w])(?:https?://|www\.)[^\s<>|]+", re.IGNORECASE)
MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)[^)]*\)")
SHOWN_LINK = re.compile(r"<(?:https?://|mailto:|tel:|slack:)[^>|]*\|([^>]*)>", re.IGNORECASE)
SHOWN_BARE = re.compile(r"<((?:https?://|mailto:|tel:|slack:)[^>|]*)>", re.IGNORECASE)
NEVER_A_CALL = ("<!date^",)
RICH_MENTIONS = {"user": "user_id", "channel": "channel_id", "usergroup": "usergroup_id"}


@dataclass(frozen=True)
class Words:
    text: str
    is_marked_up: bool = False  # Slack reads <...> in it
    is_parsed: bool = False  # Slack looks for @here and #channel in it as well
    is_linked: bool = False  # Slack makes links of bare URLs in it
    is_markdown: bool = False


def mentions(text: str, *, is_parsed: bool = False) -> list[str]:
    """Everyone and everything that mrkdwn calls: ``<@U1>``, ``<!here>``, ``<#C1>``."""
    found = [one for one in ANGLED_MENTION.findall(text) if not one.startswith(NEVER_A_CALL)]
    rest = ANGLED_MENTION.sub(" ", text)
    return found + (BARE_MENTION.findall(rest) if is_parsed else [])


def links(text: str, *, is_linked: bool = True) -> list[str]:
    rest = ANGLED_LINK.sub(" ", text)
    return ANGLED_LINK.findall(text) + (BARE_LINK.findall(rest) if is_linked else [])


def mentions_in(thing: Readable) -> list[str]:
    found = []
    for words in [*_fallback(thing), *_words(_body(thing))]:
        if words.is_marked_up:
            found += mentions(words.text, is_parsed=words.is_parsed)
    return found + list(_rich_mentions(_body(thing)))


def links_in(thing: Readable) -> list[str]:
    found = []
    for words in [*_fallback(thing), *_words(_body(thing))]:
        if words.is_markdown:
            found += MARKDOWN_LINK.findall(words.text)
        if words.is_marked_up:
            found += links(MARKDOWN_LINK.sub(" ", words.text), is_linked=words.is_linked)
    return found + [one["url"] for one in _dicts(_body(thing)) if one.get("type") == "link"]


def plain(thing: Readable) -> str:
    """All visible text, a line for each object; without confirm dialogs."""
    body = _body(thing)
    words = list(_words(body, shows_confirm=False)) if body else list(_fallback(thing))
    return "\n".join(_shown(one) for one in words)


def _shown(words: Words) -> str:
    if not words.is_marked_up:
        return words.text
    text = SHOWN_BARE.sub(r"\1", SHOWN_LINK.sub(r"\1", words.text))
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _body(thing: Readable) -> Any:
    if isinstance(thing, Modal):
        return _of_view(thing.view)
    if isinstance(thing, Message | Ephemeral):
        return thing.blocks
    return _of_view(thing) if isinstance(thing, dict) and "blocks" in thing else thing


def _of_view(view: dict[str, Any]) -> list[Any]:
    around = [view.get("submit"), view.get("close")]
    return [one for one in [view.get("title"), *view["blocks"], *around] if one]


def _fallback(thing: Readable) -> Iterator[Words]:
    """The top-level text. Slack notifies whom it names, even when blocks are shown."""
    if isinstance(thing, Message) and thing.text:
        is_parsed = thing.parse == "full" or thing.link_names
        yield Words(thing.text, True, is_parsed, thing.parse != "none")
    elif isinstance(thing, Ephemeral) and thing.text:
        yield Words(thing.text, True, False, True)


def _dicts(thing: Any, *, shows_confirm: bool = True) -> Iterator[dict[str, Any]]:
    if isinstance(thing, list):
        for one in thing:
            yield from _dicts(one, shows_confirm=shows_confirm)
    elif isinstance(thing, dict):
        yield thing
        for name, held in thing.items():
            if isinstance(held, dict | list) and (shows_confirm or name != "confirm"):
                yield from _dicts(held, shows_confirm=shows_confirm)


def _words(thing: Any, *, shows_confirm: bool = True) -> Iterator[Words]:
    for one in _dicts(thing, shows_confirm=shows_confirm):
        text, kind = one.get("text"), one.get("type")
        if isinstance(text, str):
            if kind == "mrkdwn":
                is_parsed = not one.get("verbatim", False)
                yield Words(text, True, is_parsed, is_parsed)
            elif kind == "markdown":
                yield Words(text, True, True, True, is_markdown=True)
            else:
                yield Words(text)
        for name in ("alt_text", "initial_value"):
            if isinstance(one.get(name), str):
                yield Words(one[name])


def _rich_mentions(thing: Any) -> Iterator[str]:
    for one in _dicts(thing):
        kind = one.get("type")
        if kind == "broadcast":
            yield f"<!{one['range']}>"
        elif kind in RICH_MENTIONS and RICH_MENTIONS[kind] in one:
            sign = {"user": "@", "channel": "#", "usergroup": "!subteam^"}[kind]
            yield f"<{sign}{one[RICH_MENTIONS[kind]]}>"
