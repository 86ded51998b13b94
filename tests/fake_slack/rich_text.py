"""rich_text blocks, as far as people write them."""

from __future__ import annotations

from tests.fake_slack.shapes import (
    Check,
    Shape,
    anything,
    array,
    boolean,
    by_type,
    integer,
    one_of,
    string,
    url,
)

_STYLES = ("bold", "italic", "strike", "underline", "code", "highlight", "client_highlight")
_style = Shape({}, dict.fromkeys(_STYLES, boolean))


def _part(needed: dict[str, Check], **more: Check) -> Shape:
    return Shape({"type": anything, **needed}, {"style": _style, **more})


_id = string(1, 255)
_parts: dict[str, Check] = {
    "text": _part({"text": string(1, 3000)}),
    "link": _part({"url": url}, text=string(1, 3000), unsafe=boolean),
    "user": _part({"user_id": _id}),
    "channel": _part({"channel_id": _id}),
    "usergroup": _part({"usergroup_id": _id}),
    "broadcast": _part({"range": one_of("here", "channel", "everyone")}),
    "emoji": _part({"name": _id}, unicode=_id, skin_tone=integer(1, 6)),
    "color": _part({"value": _id}),
    "date": _part(
        {"timestamp": integer(0, 9_999_999_999), "format": _id},
        url=url,
        fallback=string(1, 3000),
    ),
}
_pieces = array(by_type(_parts, "rich text"), 0, 1000)
_section = Shape({"type": anything, "elements": _pieces})
_border = integer(0, 1)
RICH_TEXT: dict[str, Check] = {
    "rich_text_section": _section,
    "rich_text_quote": Shape({"type": anything, "elements": _pieces}, {"border": _border}),
    "rich_text_preformatted": Shape({"type": anything, "elements": _pieces}, {"border": _border}),
    "rich_text_list": Shape(
        {
            "type": anything,
            "style": one_of("bullet", "ordered"),
            "elements": array(by_type({"rich_text_section": _section}, "list item"), 1, 1000),
        },
        {"indent": integer(0, 8), "offset": integer(0, 10_000), "border": _border},
    ),
}
