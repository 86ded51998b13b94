"""The container image, built here without a registry, and run as Kubernetes runs it.

Its base is a Debian made on the spot in the place of the official Python image.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from approvals import __version__
from approvals.processes import BUS, COURIER, SWEEPER, WEB, WORKER
from ledger.foundation import liveness
from tests import services
from tests.processes import free_port, until

ROOT = Path(__file__).resolve().parents[1]
MISSING = [each for each in ("buildah", "mmdebstrap", "unshare") if not shutil.which(each)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        bool(MISSING) or os.geteuid() != 0, reason=f"needs root, and of Debian: {MISSING}"
    ),
]
# As `read_only`, `cap_drop: [ALL]`, `no-new-privileges` and `tmpfs: [/tmp]` of compose.yaml do.
CONTAINED = """
mount --rbind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev" && mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
touch "$0/tmp/.s.PGSQL.5432" "$0/tmp/redis.sock" && mount --bind "$1/redis.sock" "$0/tmp/redis.sock"
mount --bind "$1/postgres/.s.PGSQL.5432" "$0/tmp/.s.PGSQL.5432"
mount -t tmpfs -o uid=10001 tmpfs "$0/buses" && root=$0 && shift
exec chroot "$root" setpriv --reuid=10001 --regid=0 --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all "$@"
"""
WRITABLE = (
    r"find / \( -path /proc -o -path /dev -o -path /tmp \) -prune -o -writable ! -type l -print"
)


class Image:
    """One image in a store of its own, mounted where its files can be looked at."""

    def __init__(self, store: Path, tree: Path) -> None:
        self.tree = tree
        self._buildah = ["buildah", "--root", str(store / "root"), "--runroot", str(store / "run")]
        base = store / "base.tar"
        link = 'ln -s python3 "$1/usr/bin/python"'
        packages = "python3,python3-venv,ca-certificates"
        debian = ["mmdebstrap", "-q", "--variant=minbase", f"--include={packages}"]
        subprocess.run([*debian, f"--customize-hook={link}", "bookworm", base], check=True)
        scratch = self.buildah("from", "scratch")
        self.buildah("add", "-q", scratch, str(base), "/")
        self.buildah("commit", "-q", scratch, "localhost/base")
        # The authorities of this machine, and where its pip finds packages.
        shared = [path for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()]
        options = ["--isolation=chroot", "--network=host", "--build-arg=BASE=localhost/base"]
        options += [f"--volume={path}:{path}:ro" for path in shared]
        make = ["make", "-o", ".venv/dev", "image", f"BUILDER={' '.join(self._buildah)}"]
        subprocess.run([*make, f"BUILD_OPTIONS={' '.join(options)}"], cwd=tree, check=True)
        self.description = json.loads(self.buildah("inspect", "--type=image", "localhost/assent"))
        self.root = Path(self.buildah("mount", self.buildah("from", "localhost/assent")))

    def buildah(self, *arguments: str) -> str:
        return subprocess.check_output([*self._buildah, *arguments], text=True).strip()

    def command(self, *command: str, **variables: str) -> list[str]:
        given = dict(line.split("=", 1) for line in self.description["OCIv1"]["config"]["Env"])
        environment = [f"{name}={value}" for name, value in (given | variables).items()]
        isolated = ["unshare", "--mount", "sh", "-ec", CONTAINED, str(self.root)]
        return [*isolated, str(services.folder), "env", "-i", *environment, *command]

    def said(self, *command: str, **variables: str) -> str:
        return subprocess.check_output(self.command(*command, **variables), text=True)

    def remove(self) -> None:
        self.buildah("umount", "--all")
        self.buildah("rm", "--all")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, engines: None) -> Iterator[Image]:
    tree = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "clone", "-q", "--depth=1", ROOT.as_uri(), tree], check=True)
    (tree / ".venv").symlink_to(Path(sys.prefix))
    built = Image(tmp_path_factory.mktemp("store"), tree)
    yield built
    built.remove()


@pytest.fixture
def its_settings(image: Image) -> Iterator[dict[str, str]]:
    """A public installation with an empty database, through the sockets of both engines."""
    (services.folder / "redis.sock").chmod(0o777)
    keys = image.said("assent", "manage", "make_keys").split()
    with psycopg.connect(services.DATABASE_URL, autocommit=True) as connection:
        connection.execute("CREATE DATABASE image")
        yield dict(line.split("=", 1) for line in keys) | {
            "ASSENT_OWNER_DATABASE_URL": "postgresql://postgres:@/image?host=/tmp",
            "ASSENT_LOG_DATABASE_URL": "postgresql://image_log:one@/image?host=/tmp",
            "DATABASE_URL": "postgresql://image_app:another@/image?host=/tmp",
            "REDIS_URL": "unix:///tmp/redis.sock?db=0",
            "ASSENT_PUBLIC_URL": "https://assent.example",
            "ASSENT_ALLOWED_HOSTS": "assent.example",
            "ASSENT_BEHIND_PROXY": "1",
            "ASSENT_GIT_BUS_FOLDER": "/buses",
        }
        connection.execute("DROP DATABASE image WITH (FORCE)")
        connection.execute("DROP ROLE image_app, image_log")


def test_it_says_what_it_is(image):
    config = image.description["OCIv1"]["config"]
    revision = subprocess.check_output(
        ["git", "rev-parse", "HEAD"], cwd=image.tree, text=True
    ).strip()

    assert config["User"] == "10001:0"
    assert [each for each in config["Env"] if "ASSENT" in each] == []
    assert config["Labels"]["org.opencontainers.image.version"] == __version__
    assert config["Labels"]["org.opencontainers.image.revision"] == revision
    assert image.said("assent", "version").strip() == __version__
    checked = image.said("assent", "manage", "check", ASSENT_SECRET_KEY="x" * 60, ASSENT_DEBUG="1")
    assert "no issues" in checked


def test_it_has_nothing_that_builds_and_nothing_of_the_repository(image):
    programs = image.said(
        "sh", "-c", "for each in gcc make git ssh; do command -v $each || :; done"
    )
    everything = {path.name for path in (image.root / "assent").rglob("*")}

    assert programs.split() == ["/usr/bin/git", "/usr/bin/ssh"]
    assert (
        everything & {".git", ".env", "requirements.lock", "pip3", "initdb", "valkey-server"}
        == set()
    )
    assert [name for name in everything if name.endswith(".whl")] == []


def test_whoever_takes_over_a_process_can_change_no_file_of_it(image):
    writable = image.said("sh", "-c", f"{WRITABLE} || true").split()
    of_the_image = subprocess.check_output(["find", image.root, "-xdev", "-user", "10001"])

    assert writable == ["/buses"], "besides /tmp"
    assert {Path(path).name for path in of_the_image.decode().split()} == {"log", "buses"}


def test_every_process_works_with_nothing_to_write_to_but_memory(image, its_settings):
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    given = {"web": ["--host", "127.0.0.1", "--port", str(port)]}
    image.said("assent", "run", "migrate", **its_settings)

    started = [
        subprocess.Popen(
            image.command(
                "assent", "run", process.name, *given.get(process.name, []), **its_settings
            )
        )
        for process in (WEB, WORKER, COURIER, SWEEPER, BUS)
    ]
    try:
        until(lambda: nothing_is_missing(address), 60, "/readyz")
        until(lambda: {"worker", "courier", "sweeper", "bus"} <= set(liveness.counts() or ()), 60)
        proxy = {"Host": "assent.example", "X-Forwarded-Proto": "https"}
        with httpx.Client(base_url=address, headers=proxy, trust_env=False) as browser:
            page = browser.get("/sign-in/")
            sheet = re.search(r'href="(/static/[^"]+\.css)"', page.text)
            assert sheet, page.text
            style = browser.get(sheet[1])
    finally:
        for process in started:
            process.terminate()
        ended = [process.wait(30) for process in started]

    assert (page.status_code, style.status_code) == (200, 200)
    assert ended == [0] * 5


def nothing_is_missing(address: str) -> bool:
    """Of the database, Redis and the sweeper."""
    try:
        answer = httpx.get(f"{address}/readyz", trust_env=False)
    except httpx.TransportError:
        return False
    return bool(answer.json() == {"status": "ok", "missing": {}})
