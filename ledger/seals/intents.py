"""The Token of Intent: what the approver sees, as canonical JSON, and its digest. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import rfc8785
from babel.numbers import get_currency_precision

from ledger.errors import InvalidRequest, Sentence, UnsafeText
from ledger.foundation import characters

MAX_DEPTH = 32
EXACT_MAX = 2**53 - 1  # every integer up to this one is exact as a double
# Where ``_is_plain`` is true this writes the bytes of RFC 8785, several times as fast.
_plain = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def canonical(value: Any) -> bytes:
    """RFC 8785 canonical JSON. Amounts must be strings already: JSON numbers are doubles.

    Raises ``InvalidRequest`` for values without a canonical form (numbers beyond ±(2⁵³ - 1), NaN).
    """
    try:
        if _is_plain(value):
            return _plain(value).encode()
        _refuse_inexact(value)
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as refusal:
        raise InvalidRequest(f"The value has no canonical JSON form: {refusal}") from refusal


def canonical_as_stored(value: Any) -> bytes:
    """Canonical JSON of a value as PostgreSQL stores it, without loss of digits.

    Numbers beyond ±(2⁵³ - 1), which doubles do not hold exactly, are written as text of their
    digits. That includes 1e22, which PostgreSQL stores as an integer.
    """
    if value is None:
        return b"null"
    return canonical(value if _is_plain(value) else _exact(value))


def _is_plain(value: Any) -> bool:
    """True if Python's own JSON encoder writes the canonical form.

    It formats floats differently, and may sort names outside of ASCII differently.
    """
    kind = type(value)
    if kind is dict:
        for name, item in value.items():
            if type(name) is not str or not name.isascii():
                return False
            if type(item) is not str and not _is_plain(item):
                return False
        return True
    if kind is list:
        return all(map(_is_plain, value))
    if kind is int:
        return bool(-EXACT_MAX <= value <= EXACT_MAX)
    return kind is str or value is None or kind is bool


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) <= EXACT_MAX:
        return value
    return f"{Decimal(repr(value)):f}"


def _refuse_inexact(value: Any) -> None:
    if isinstance(value, float):
        if abs(value) > EXACT_MAX:
            raise InvalidRequest(
                Sentence("{number} is too large for a JSON number; send it as text.", number=value)
            )
    elif isinstance(value, dict):
        for item in value.values():
            _refuse_inexact(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_inexact(item)


def digest_of(value: Any) -> str:
    """SHA-256 over the canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def refuse_unsafe_text(value: Any, where: str = "", depth: int = 0) -> None:
    """Refuse text anywhere in ``value`` that would look different on a screen from what it is.

    Raises ``UnsafeText``, naming the place, or ``InvalidRequest`` when nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise InvalidRequest(
            Sentence(
                "{place} is nested more than {most} levels deep.",
                place=where[:80],
                most=MAX_DEPTH,
            )
        )
    if isinstance(value, str):
        if unsafe := characters.unsafe_in(value):
            raise UnsafeText(
                Sentence("{place} contains {character}.", place=where, character=unsafe)
                if where
                else Sentence("The text contains {character}.", character=unsafe)
            )
    elif isinstance(value, dict):
        for key, item in value.items():
            refuse_unsafe_text(key, f"a name in {where or 'the request'}", depth)
            refuse_unsafe_text(item, f"{where}.{key}" if where else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            refuse_unsafe_text(item, f"{where}[{index}]", depth + 1)


def normalised(value: Any) -> Any:
    """The same JSON with every text and name in NFC; done before values are compared or sealed.

    Raises ``UnsafeText`` when two names of an object become equal.
    """
    return _with_texts(value, characters.normalised)


def folded(value: Any) -> Any:
    """The same JSON without invisible differences, for operation keys. Raises ``UnsafeText``."""
    return _with_texts(value, characters.folded)


def texts_in(value: Any) -> Iterator[str]:
    """Every text and name in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_with_texts(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {change(str(name)): _with_texts(item, change) for name, item in value.items()}
    if len(changed) != len(value):
        raise UnsafeText("Two names of an object look the same.")
    return changed


def intent_of(row: Any) -> dict[str, Any]:
    """The intent the approver of ``row`` sees and agrees to; ``intent_digest`` is made from it."""
    version = {} if row.tool_version is None else {"tool_version": row.tool_version}
    evidence = {"evidence": row.evidence} if row.evidence else {}
    return {
        **version,
        **evidence,
        "transaction_id": str(row.id),
        "tenant": row.tenant,
        "tool": row.tool,
        "proposed_by": row.proposed_by,
        "action_summary": row.action_summary,
        "warnings": row.warnings,
        "financial_impact": financial_impact(row.amount, row.currency),
        "consequence_level": row.consequence_level,
        "risk_level": row.risk_level,
        "arguments": row.arguments,
        "operation_key": row.operation_key,
    }


def financial_impact(amount: Decimal | None, currency: str) -> dict[str, str] | None:
    """``{"amount": "48.20", "currency": "EUR"}``, or ``None`` if there is no amount.

    With as many decimals as ISO 4217 gives the currency, however the amount is stored.
    """
    if amount is None:
        return None
    return {"amount": f"{amount:.{get_currency_precision(currency)}f}", "currency": currency}
