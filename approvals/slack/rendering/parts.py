"""Parts that messages of every kind share: how much detail fits, links to the desk, cut texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _
from slack_sdk.models.blocks import Block, ContextBlock, LinkButtonElement

from a2a.origins import Origin
from approvals.models import SlackMessage
from approvals.slack.rendering.text import one_line, plain, shortened

BUTTON_ABOUT_MOST = 100  # characters of the subject's summary that travel in a button


@dataclass(frozen=True, slots=True)
class Detail:
    """The shown amount of each part that may be long.

    In characters, but ``fields`` and ``warnings``, which are numbers of parts. Nobody decides on a
    message that is not ``is_whole``: it only leads to the desk.
    """

    summary: int
    warning: int
    prose: int
    fields: int
    value: int
    warnings: int = 5
    is_whole: bool = False


def desk_link(page: str, *args: object) -> str:
    """The address of a page of the desk; ``page`` is the name of its URL."""
    return f"{settings.PUBLIC_URL.rstrip('/')}{reverse(f'desk:{page}', args=args)}"


def open_button(url: str, label: str = "", style: str | None = None) -> LinkButtonElement:
    return LinkButtonElement(text=plain(label or _("Open")), url=url, action_id="open", style=style)


def reason_for_posting(message: SlackMessage) -> Iterator[Block]:
    """Why the message is in this channel, when it was escalated."""
    if message.why:
        yield ContextBlock(elements=[plain(_(message.why), 500)])


def came_over(origin: Origin | None) -> Iterator[Block]:
    """Over which git bus it came, and how far its sender can be trusted."""
    if origin is not None:
        yield ContextBlock(elements=[plain(one_line(str(origin)), 800)])


def cut_with_hint(text: str, most: int) -> str:
    """The text, or as much of it as fits and a hint to the desk."""
    short = shortened(text, most)
    return short if short == text else short + "\n" + _("(The rest is on the desk.)")


def as_dicts(blocks: list[Block]) -> list[dict[str, Any]]:
    return [block.to_dict() for block in blocks]
