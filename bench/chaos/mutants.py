"""``make chaos MUTANTS=1``: does the storm notice when the product breaks a promise?

Each mutant is a copy of the tree with one broken line, and the scene in which that line counts. The
unbroken product plays all scenes first and has to keep every promise; then each mutant has to be
caught, by the invariant that it breaks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.chaos import scenes
from bench.chaos.installation import ROOT
from bench.chaos.scenes import Scene

COPIED = ("a2a", "approvals", "bench", "examples", "ledger", "static", "templates", "tests")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of the product, broken."""

    name: str
    file: str
    line: str
    broken: str
    scene: Scene
    caught_by: str  # the sentence of an invariant


MUTANTS = (
    Mutant(
        "a receipt is thrown away at the first failure of the database",
        "ledger/execution/recording.py",
        "RECORD_FOR_S = 600.0",
        "RECORD_FOR_S = 0.0",
        scenes.the_answer_comes_while_the_database_is_away,
        "an answer in time is a commit",
    ),
    Mutant(
        "keys are not looked up",
        "ledger/transactions/prepare/admission.py",
        "AND k.key = %(key)s",
        "AND k.key = %(key)s AND false",
        scenes.a_key_is_repeated_after_the_end,
        "who repeats a key is told the same",
    ),
    Mutant(
        "an answer told again is not marked",
        "ledger/api/transactions.py",
        'response["Idempotent-Replayed"] = "true"',
        "pass",
        scenes.a_key_is_repeated_after_the_end,
        "who repeats a key is told the same",
    ),
    Mutant(
        "a rollback is done although the outside refused",
        "ledger/execution/rollback.py",
        "outcome = _call_rollback(lease)",
        "outcome = Done(_call_rollback(lease))",
        scenes.the_outside_refuses_to_release,
        "no hold is left over",
    ),
    Mutant(
        "the lease is not looked at before the call",
        "ledger/execution/tool_calls.py",
        "if is_leased and not lease.is_good():",
        "if False:",
        scenes.a_worker_stands_still_before_its_look,
        "nothing is called after its lease",
    ),
    Mutant(
        "any tool is run again",
        "ledger/execution/doubt.py",
        "contract.retry_safe and ",
        "",
        scenes.the_answer_is_lost,
        "no operation took effect twice",
    ),
    Mutant(
        "an exception proves that nothing happened",
        "ledger/execution/tool_calls.py",
        "return _unknown(lease, role, failure)",
        'return Nothing("It raised.")',
        scenes.the_answer_is_lost,
        "nothing rejected, expired or canceled was carried out",
    ),
    Mutant(
        "PostgreSQL acknowledges before it is on the disk",
        "approvals/settings.py",
        '"server_side_binding": True,',
        '"server_side_binding": True, "options": "-c synchronous_commit=off",',
        scenes.postgres_dies_after_an_answer,
        "every acknowledged prepare has its row",
    ),
    Mutant(
        "what no signal woke is not found",
        "ledger/workers/sweeper.py",
        '"commit", _approved_and_unclaimed(), ',
        '"commit", ',
        scenes.redis_is_away_at_a_sign_off,
        "everything has ended or is in doubt for a reason",
    ),
    Mutant(
        "what can still be undone is claimed",
        "ledger/execution/claims.py",
        "for_workers.without_late_receipt_of_operation().past_not_before()",
        "for_workers.without_late_receipt_of_operation()",
        scenes.a_late_signal_meets_a_new_approval,
        "the ledger is whole",
    ),
    Mutant(
        "a claim does not ask whether its agent is stopped",
        "ledger/execution/claims.py",
        "possible.filter(hold_lasts, may_begin(), pk",
        "possible.filter(hold_lasts, pk",
        scenes.an_agent_is_stopped_before_its_work_begins,
        "nothing begins while it is stopped",
    ),
    Mutant(
        "a refused webhook counts as sent",
        "ledger/delivery/couriers.py",
        "self._failed.append((parcel.delivery, failure))",
        "self._done.append(parcel.delivery)",
        scenes.a_webhook_is_refused,
        "no delivery is lost",
    ),
)


def main(numbers: Sequence[int] = ()) -> int:
    """Play all, or the mutants with these numbers; 1 if any was not caught."""
    chosen = [MUTANTS[number] for number in numbers] or MUTANTS
    with tempfile.TemporaryDirectory(prefix="assent-mutants-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user enters it
        faults = [fault for fault in [_unbroken(Path(folder), chosen)] if fault]
        faults += [fault for mutant in chosen if (fault := _fault(Path(folder), mutant))]
    print("\n".join(faults) or f"\nEach of {len(chosen)} mutants was caught.")
    return bool(faults)


def _unbroken(folder: Path, chosen: Sequence[Mutant]) -> str:
    needed = dict.fromkeys(mutant.scene.__name__ for mutant in chosen)
    status, output = _play("the product as it is", ROOT, folder, *needed)
    return "" if status == 0 else f"The product as it is breaks a promise:\n{output}"


def _fault(folder: Path, mutant: Mutant) -> str:
    """Why it counts as not caught; empty if it was."""
    tree = folder / "tree"
    _break(tree, mutant)
    try:
        status, output = _play(mutant.name, tree, folder, mutant.scene.__name__)
    finally:
        shutil.rmtree(tree)
    broken = [line.partition("  ")[2] for line in _violations(output)]
    if status == 1 and mutant.caught_by in broken:
        return ""
    return f"\nNot caught: {mutant.name} ({mutant.file}); broken: {broken}\n{output[-3000:]}"


def _violations(output: str) -> list[str]:
    """The lines of the table with an invariant that something broke: ``3  a sentence``."""
    invariants = output.partition("Invariants, and what broke them\n")[2].splitlines()
    lines = [line.strip() for line in invariants if line[:8].strip().isdigit()]
    return [line for line in lines if not line.startswith("0 ")]


def _break(tree: Path, mutant: Mutant) -> None:
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    shutil.copy(ROOT / "manage.py", tree)
    file = tree / mutant.file
    text = file.read_text()
    if text.count(mutant.line) != 1:
        raise ValueError(f"{mutant.file} has {text.count(mutant.line)} times: {mutant.line}")
    file.write_text(text.replace(mutant.line, mutant.broken))


def _play(name: str, tree: Path, folder: Path, *scene_names: str) -> tuple[int, str]:
    """Exit status and output of a run in this tree."""
    began = time.monotonic()
    kept = Path(tempfile.mkdtemp(prefix="scene-", dir=folder))
    kept.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "bench.chaos.mutants", str(kept), *scene_names],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    broken = "; ".join(_violations(done.stdout)) or f"status {done.returncode}"
    print(f"{time.monotonic() - began:6.0f} s  {name}: {broken}", flush=True)
    return done.returncode, done.stdout


def _play_here(folder: Path, names: Sequence[str]) -> int:
    from bench.chaos.__main__ import tell

    stage = scenes.play(folder, [getattr(scenes, name) for name in names])
    return tell(folder, stage.happened, stage.failures)


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    sys.exit(_play_here(Path(folder), names))
