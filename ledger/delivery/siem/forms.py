"""The forms in which a SIEM takes events. Pure: events go in, a request comes out.

An event is the one of the export (docs/audit.md), so that a receiver can compute its hash again,
and drop what it has already: ``hash`` is there once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from ledger import seals
from ledger.seals import Link

Json = dict[str, Any]
SCOPE = "assent.audit"
ATTRIBUTES = ("subject", "tenant", "kind", "from_state", "to_state", "principal", "via")
HEC_NAMESPACE = UUID("5a4f21f9-9d63-4f53-8c4b-9f62b7a8c3e1")


@dataclass(frozen=True, slots=True)
class Form:
    """``item`` is one event as text, ``body`` is what a request has of several."""

    content_type: str
    scheme: str  # of ``Authorization``
    item: Callable[[Link, str], str]
    body: Callable[[Sequence[str], str], str]
    headers: Callable[[str], dict[str, str]] = lambda origin: {}


def exported(link: Link) -> Json:
    """The event as the export has it."""
    fields = link._asdict()
    return {
        name: value if value is None or isinstance(value, int) else seals.as_text(value)
        for name, value in fields.items()
    }


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _line(link: Link, origin: str) -> str:
    return _text(exported(link))


def _lines(items: Sequence[str], origin: str) -> str:
    return "".join(f"{item}\n" for item in items)


def _splunk_item(link: Link, origin: str) -> str:
    """An event of the HTTP Event Collector; ``time`` is in seconds."""
    micro = int(seals.as_text(link.at))
    return _text(
        {
            "time": f"{micro // 10**6}.{micro % 10**6:06d}",
            "host": origin,
            "source": SCOPE,
            "sourcetype": "assent:event",
            "event": exported(link),
        }
    )


def _channel(origin: str) -> dict[str, str]:
    """Tokens with acknowledgement of the indexer want it; the others take no notice."""
    return {"X-Splunk-Request-Channel": str(uuid5(HEC_NAMESPACE, origin))}


def _otlp_item(link: Link, origin: str) -> str:
    """A LogRecord of OTLP, whose 64-bit integers are text in JSON."""
    at = str(int(seals.as_text(link.at)) * 1000)
    fields = exported(link)
    attributes: list[Json] = [_attribute("log.record.uid", link.hash)]
    attributes.append({"key": "assent.event.id", "value": {"intValue": str(link.id)}})
    attributes.append({"key": "assent.event.seq", "value": {"intValue": str(link.seq)}})
    attributes += [_attribute(f"assent.event.{name}", fields[name]) for name in ATTRIBUTES]
    return _text(
        {
            "timeUnixNano": at,
            "observedTimeUnixNano": at,
            "severityNumber": 9,
            "severityText": "INFO",
            "eventName": f"assent.{link.kind}",
            "body": {"stringValue": _text(fields)},
            "attributes": attributes,
        }
    )


def _otlp_body(items: Sequence[str], origin: str) -> str:
    resource = [_attribute("service.name", "assent"), _attribute("assent.log", origin)]
    head = f'{{"resource":{{"attributes":{_text(resource)}}},"scopeLogs":[{{"scope":{{"name":'
    return f'{{"resourceLogs":[{head}"{SCOPE}"}},"logRecords":[{",".join(items)}]}}]}}]}}'


def _attribute(key: str, value: Any) -> Json:
    return {"key": key, "value": {"stringValue": str(value)}}


FORMS = {
    "json": Form("application/x-ndjson", "Bearer", _line, _lines),
    "splunk": Form("application/json", "Splunk", _splunk_item, _lines, _channel),
    "otlp": Form("application/json", "Bearer", _otlp_item, _otlp_body),
}
