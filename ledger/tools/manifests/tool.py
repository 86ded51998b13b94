"""``ManifestTool``: a tool that a manifest describes, and that is no function of this process."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from ledger.contracts import Role, Tool
from ledger.tools.manifests.arguments import model_of
from ledger.tools.manifests.base import Manifest


class ManifestTool(Tool[..., Any]):
    """One version of a tool. Each kind writes its own ``run``."""

    def __init__(self, manifest: Manifest, companions: Iterable[Role]) -> None:
        super().__init__(_not_here, manifest.contract.contract())
        self.manifest = manifest
        self.name = manifest.name
        self.description = manifest.description
        self.version = manifest.sha256
        self.companions = dict.fromkeys(companions, _not_here)

    @cached_property
    def arguments_model(self) -> type[BaseModel]:
        return model_of(self.manifest.arguments, self.name)

    def meaning_of(self, arguments: BaseModel) -> dict[str, Any]:
        """The arguments as JSON in which 1 and 1.0 are the same."""
        meaning: dict[str, Any] = _without_fractions_of_zero(arguments.model_dump(mode="json"))
        return meaning


def _without_fractions_of_zero(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _without_fractions_of_zero(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_fractions_of_zero(item) for item in value]
    return value


def _not_here(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("The tool is not a function of this process.")
