"""axe-core, run in a page of a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SCRIPT = (Path(__file__).parent / "axe-4.14.1.min.js").read_text()
DESKTOP, PHONE = {"width": 1360, "height": 900}, {"width": 390, "height": 844}
# What a change of colours can break.
OF_COLOURS = ["color-contrast", "link-in-text-block"]


def violations(page: Page) -> list[str]:
    """What axe finds on the page and in its dialogs: light and dark, on a desktop and a phone."""
    page.evaluate(SCRIPT)
    page.evaluate("document.querySelectorAll('details').forEach((all) => { all.open = true; })")
    found = list(_in_every_look(page))
    for dialog in page.evaluate("[...document.querySelectorAll('dialog')].map((one) => one.id)"):
        page.evaluate("(id) => document.getElementById(id).showModal()", dialog)
        found += [f"dialog {dialog}: {line}" for line in _in_every_look(page)]
        page.evaluate("(id) => document.getElementById(id).close()", dialog)
    return found


def _in_every_look(page: Page) -> Iterator[str]:
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size)
        _set_theme(page, "light")
        yield from (f"light {size['width']}: {line}" for line in _run(page))
        _set_theme(page, "dark")
        yield from (f"dark {size['width']}: {line}" for line in _run(page, OF_COLOURS))


def _set_theme(page: Page, theme: Any) -> None:
    """As the system would; a page that has a script for it follows a moment later."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function(
        """(theme) => {
          const own = document.documentElement.dataset.theme;
          return !['light', 'dark'].includes(own) || own === theme;
        }""",
        arg=theme,
    )
    page.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished))")


def _run(page: Page, rules: list[str] | None = None) -> Iterator[str]:
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    result = page.evaluate("(options) => axe.run(document, options)", options)
    for violation in result["violations"]:
        for node in violation["nodes"][:3]:
            yield f"{violation['id']}: {node['html'][:200]} ({len(violation['nodes'])} in all)"
