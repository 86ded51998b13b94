"""Counting for /metrics does no harm to what is counted, whatever has become of the folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
from prometheus_client import CollectorRegistry, generate_latest
from ledger.foundation.telemetry.counters import Counted, add_to
counted = Counted("assent_sign_ins", "Attempts to sign in.", "outcome")
def told():
    add_to(registry := CollectorRegistry())
    return generate_latest(registry).decode()
"""
COUNT = BEGIN + "counted.count('refused'); print('it goes on')"
TELL = BEGIN + "print(told())"
ONCE = 'assent_sign_ins_total{outcome="refused"} 1.0'


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASSENT_METRICS_FOLDER": str(folder)}
    environment |= {"DJANGO_SETTINGS_MODULE": "approvals.settings", "ASSENT_LOG_LEVEL": "WARNING"}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("is_file", [False, True])
def test_without_a_folder_nothing_is_counted_and_work_goes_on(tmp_path, is_file):
    folder = tmp_path / "folder"
    if is_file:
        folder.write_text("no folder")

    ended = run(COUNT, folder)

    assert ended.stdout == "it goes on\n"
    assert ended.stderr.count("nothing is counted") == 1
    assert "Traceback" not in ended.stderr
    assert run(TELL, folder).returncode == 0


def test_a_file_that_cannot_be_read_hides_no_other_count(tmp_path):
    assert run(COUNT, tmp_path).returncode == 0
    (counted,) = tmp_path.glob("counter_*.db")
    for name, content in {
        "empty": b"",
        "half": b"\xff\xff\0\0" * 9,
        "odd": b"\x18" + b"\xff" * 99,
    }.items():
        (tmp_path / f"counter_{name}.db").write_bytes(content)

    told = run(TELL, tmp_path)

    assert ONCE in told.stdout
    assert counted.stat().st_size == 1 << 16


def test_the_file_of_an_earlier_process_of_the_same_number_may_be_broken(tmp_path):
    script = """
import os, socket, pathlib
name = f"counter_{socket.gethostname().replace('_', '-')}-{os.getpid()}.db"
pathlib.Path(os.environ["ASSENT_METRICS_FOLDER"], name).write_bytes(b"\\xff\\xff\\0\\0" * 9999)
"""
    ended = run(f"{script}{COUNT}; print(told())", tmp_path)

    assert ONCE in ended.stdout


@pytest.mark.parametrize("room", [0, 1 << 12, 1 << 16])
def test_a_full_disk_ends_no_process(tmp_path, room):
    """Files may have no more bytes than the room, as on a disk that has none left."""
    script = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
{BEGIN}
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
for number in range(2000):
    counted.count(f"outcome {{number}}")
print("it goes on")
"""
    ended = run(script, tmp_path)

    assert ended.returncode != -signal.SIGBUS
    assert ended.stdout == "it goes on\n"
    assert ended.stderr.count("nothing is counted") == 1


def test_no_page_of_a_file_is_a_hole(tmp_path):
    """To write into a hole, of which a full disk has no page, kills the process."""
    script = f"{BEGIN}\nfor number in range(2000): counted.count(f'outcome {{number}}')"
    assert run(script, tmp_path).returncode == 0
    (counted,) = tmp_path.glob("counter_*.db")

    told = counted.stat()

    assert told.st_size > 1 << 16
    assert told.st_blocks * 512 >= told.st_size
