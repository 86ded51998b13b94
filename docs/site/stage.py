"""Gather in build/site what the documentation site is made of.

The pages of docs/ read well on a code host as they are. Here they are copied, with three pages of
the root. A link to code leads to a page with that code, so the site needs no address of a
repository, and each version of it shows its own code.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STAGE = ROOT / "build/site"
# docs/index.md says what README.md, the front page of the repository, says.
OF_THE_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(
    r"""(?P<before>\]\(|\b(?:src|srcset|href)=")(?P<path>[^()\s"#]*)(?P<anchor>\#[^()\s"]*)?(?=[)"])"""
)


def main() -> None:
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(DOCS, STAGE, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(ROOT / "static/img/favicon.svg", STAGE / "site")
    for page in [*(ROOT / name for name in OF_THE_ROOT), *DOCS.rglob("*.md")]:
        staged(page).write_text(for_the_site(page))


def staged(path: Path) -> Path:
    """The place on the stage of a file or folder; a folder's is its index."""
    if path.is_relative_to(DOCS):
        return STAGE / path.relative_to(DOCS) / ("README.md" if path.is_dir() else "")
    name = path.relative_to(ROOT).as_posix()
    return STAGE / OF_THE_ROOT.get(name, f"source/{name}.md")


def for_the_site(page: Path) -> str:
    """The text of the page, with links that fit its place on the stage."""

    def moved(link: re.Match[str]) -> str:
        target = (page.parent / link["path"]).resolve()
        if not link["path"] or not target.exists():
            return link[0]
        place = staged(target)
        if place.is_relative_to(STAGE / "source"):
            show_code(target, place)
        path = os.path.relpath(place, staged(page).parent)
        return f"{link['before']}{path}{link['anchor'] or ''}"

    return LINK.sub(moved, page.read_text())


def show_code(path: Path, page: Path) -> None:
    """Write a page with the file, or with the files right in the folder."""
    shown = [f"# {path.relative_to(ROOT)}"]
    for file in sorted(path.glob("[!_.]*.*")) if path.is_dir() else [path]:
        shown += [f"## {file.name}"] if file != path else []
        shown += [f"``````{file.suffix[1:]}\n{file.read_text()}\n``````"]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("---\nsearch:\n  exclude: true\n---\n\n" + "\n\n".join(shown))


if __name__ == "__main__":
    main()
