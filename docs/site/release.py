"""Put the built site beside those of earlier versions: `release.py FOLDER VERSION`.

The folder is what is published: one folder for each version, a list of them for the menu in the
header, and a page that leads to the newest.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

SITE = Path(__file__).parents[2] / "site"
TO_THE_NEWEST = """\
<!doctype html><title>Assent</title><meta http-equiv="refresh" content="0; url={newest}/">
"""


def main(folder: Path, version: str) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+\w*", version):
        sys.exit(f"{version!r} is no version as 0.1.0. Nothing was published.")
    shutil.copytree(SITE, folder / version, dirs_exist_ok=True)
    newest_first = sorted(
        (path.parent.name for path in folder.glob("*.*.*/index.html")), key=order, reverse=True
    )
    finished = [name for name in newest_first if name.replace(".", "").isdigit()]
    newest = (finished or newest_first)[0]
    menu = [
        {"version": name, "title": name, "aliases": ["latest"] if name == newest else []}
        for name in newest_first
    ]
    (folder / "versions.json").write_text(json.dumps(menu, indent=1))
    (folder / "index.html").write_text(TO_THE_NEWEST.format(newest=newest))


def order(version: str) -> tuple[list[int], bool, str]:
    """By the three numbers; 0.2.0rc1 comes before 0.2.0."""
    numbers, rest = re.fullmatch(r"([\d.]*\d)(.*)", version).groups()
    return [int(number) for number in numbers.split(".")], not rest, rest


if __name__ == "__main__":
    main(Path(sys.argv[1]), "".join(sys.argv[2:]))
