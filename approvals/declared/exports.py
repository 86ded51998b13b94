"""Whatever is there, as files that can be applied: without anything that is secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from approvals.declared.kinds import Kind, Spec
from approvals.declared.registry import kinds


def text_of(tenant: str) -> str:
    """One document after the other, in the order in which they are applied."""
    return "---\n".join(
        _document(kind, spec) for kind in kinds().values() for spec in kind.present(tenant)
    )


def _document(kind: Kind[Any], spec: Spec) -> str:
    members = {"kind": kind.name, "tenant": spec.tenant, **dict(_members(spec))}
    return yaml.safe_dump(members, sort_keys=False, allow_unicode=True, width=88)


def _members(spec: Spec) -> Iterator[tuple[str, Any]]:
    """Without what is at its default, in the order in which the kind has them."""
    facts = spec.facts()
    for name, field in type(spec).model_fields.items():
        if name in facts and (field.is_required() or facts[name] != field.default):
            yield name, facts[name]
