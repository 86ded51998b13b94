"""Manifests as YAML text (JSON is YAML, too), as operators write and read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from ledger.tools.manifests.base import Manifest, ManifestRefused

MOST = 1_000_000  # characters


class _Plain(yaml.SafeLoader):
    """YAML without what unfolds to gigabytes, and without members that hide another one."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed; write it out")
        return super().compose_node(parent, index)

    def flatten_mapping(self, node: Any) -> None:
        names = [name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode)]
        if "<<" in names:
            raise yaml.YAMLError("merging (<<) is not allowed; write it out")
        if twice := [name for name in names if names.count(name) > 1]:
            raise yaml.YAMLError(f"{twice[0]!r:.80} stands in it twice")


def parse(text: str) -> Any:
    """The value of the text. Raises ``ManifestRefused``."""
    return _parsed(text, lambda: yaml.load(text, Loader=_Plain))


def parse_all(text: str) -> list[Any]:
    """The values of the documents of the text. Raises ``ManifestRefused``."""
    documents: list[Any] = _parsed(text, lambda: list(yaml.load_all(text, Loader=_Plain)))
    return documents


def _parsed(text: str, load: Callable[[], Any]) -> Any:
    if len(text) > MOST:
        raise ManifestRefused(f"the text has more than {MOST} characters")
    try:
        return load()
    except RecursionError:
        raise ManifestRefused("the text is nested too deeply") from None
    except yaml.MarkedYAMLError as failure:
        raise ManifestRefused(f"the text is not YAML: {_place_of(failure)}") from None
    except (yaml.YAMLError, ValueError) as failure:
        raise ManifestRefused(f"the text is not YAML: {failure}") from None


def _place_of(failure: yaml.MarkedYAMLError) -> str:
    """Without the lines around it, which may have a secret in them that somebody wrote down."""
    mark = failure.problem_mark
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{failure.problem}{where}"


def text_of(manifest: Manifest) -> str:
    """The manifest as YAML that ``parse`` reads."""
    return yaml.safe_dump(
        manifest.as_json(), sort_keys=False, allow_unicode=True, width=88, default_flow_style=False
    )
