"""Pages of the sandbox: the count of its effects as JSON, and pages for people."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from html import escape
from typing import Any

from examples.sandbox.store import Store
from examples.sandbox.wire import Answer, Ask, Refused, route

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1c1e21;background:#fff;max-width:60rem;
margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.4rem .8rem .4rem 0;border-bottom:1px solid #ddd;vertical-align:top}
code{font-size:.9em;overflow-wrap:anywhere}.quiet{color:#5a5f66}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181b}td,th{border-color:#333}
.quiet{color:#a0a4aa}a{color:#8ab4f8}}
"""


@route("GET", "/effects")
def effects(store: Store, ask: Ask) -> Answer:
    """Count every effect. Holds are not effects: they expire by themselves."""
    rows = store.rows("SELECT kind, subject, key FROM effects")
    holds = _holds(store)
    return Answer(
        {
            "total": len(rows),
            "by_kind": Counter(row["kind"] for row in rows),
            "by_subject": Counter(row["subject"] for row in rows),
            "by_key": Counter(row["key"] for row in rows if row["key"]),
            "live_holds": len(holds),
            "holds": holds,
        }
    )


@route("GET", "/receipts/{receipt}")
def receipt_page(store: Store, ask: Ask) -> Answer:
    row = store.row("SELECT * FROM effects WHERE receipt = ?", ask.at["receipt"])
    if row is None:
        raise Refused(404, "no_such_receipt", "There is no such receipt.")
    facts = {
        "Receipt": row["receipt"],
        "When": _instant(row["at"]),
        "Kind": row["kind"],
        "Reference": row["key"],
    }
    listed = "".join(
        f"<tr><th>{escape(name)}</th><td><code>{escape(value or 'none')}</code></td></tr>"
        for name, value in facts.items()
    )
    return _page(row["summary"], f'<table>{listed}</table><p><a href="/">Everything</a></p>')


@route("GET", "/")
def home(store: Store, ask: Ask) -> Answer:
    done = store.rows("SELECT * FROM effects ORDER BY id DESC LIMIT 200")
    total = store.rows("SELECT count(*) AS n FROM effects")[0]["n"]
    rows = "".join(
        f"<tr><td>{escape(row['summary'])}</td>"
        f'<td><a href="/receipts/{escape(row["receipt"])}"><code>{escape(row["receipt"])}</code>'
        f'</a></td><td class="quiet">{_instant(row["at"])}</td></tr>'
        for row in done
    )
    held = "".join(
        f"<li>{escape(hold['flight_id'])} for {escape(hold['passenger'])},"
        f" until {escape(hold['expires_at'])}</li>"
        for hold in _holds(store)
    )
    return _page(
        "The outside world",
        '<p class="quiet">An airline, a payment provider and a cloud, simulated for the demo.'
        f" Reload to see what is new.</p><h2>What it has done ({total})</h2>"
        + (f"<table>{rows}</table>" if rows else "<p>Nothing yet.</p>")
        + "<h2>Seats held now</h2>"
        + (f"<ul>{held}</ul>" if held else "<p>None.</p>"),
    )


def _holds(store: Store) -> list[dict[str, Any]]:
    rows = store.rows(
        "SELECT * FROM holds WHERE state = 'live' AND expires_at > ? ORDER BY expires_at",
        time.time(),
    )
    return [
        {
            "hold_id": row["id"],
            "flight_id": row["flight_id"],
            "passenger": row["passenger"],
            "expires_at": _instant(row["expires_at"]),
        }
        for row in rows
    ]


def _page(title: str, content: str) -> Answer:
    title = escape(title)
    return Answer(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style><h1>{title}</h1>{content}</html>"
    )


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="seconds")
