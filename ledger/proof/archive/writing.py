"""An archive for auditors as a zip file, written in one pass in bounded memory, then sealed.

The seal needs no key: the SHA-256 of the manifest becomes an event of the log, and the next
checkpoint over it, which the sweeper signs and witnesses cosign, signs the archive as well.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self

from django.conf import settings

from ledger.events import ChangeKind, record_change
from ledger.models import Event
from ledger.models.events import Checkpoint
from ledger.principals import Principal, Surface
from ledger.proof import audit
from ledger.proof.archive import contents, summaries
from ledger.proof.archive.contents import NotYetSigned, Period
from ledger.proof.audit import decision_records
from ledger.proof.audit.decision_records import Record, in_words
from ledger.proof.audit.histories import snapshot
from ledger.proof.log import checkpoints
from ledger.seals import Link

FORMAT, VERSION = "assent-evidence", 1
HERE = Path(__file__).parent
VERIFIER = Path(settings.BASE_DIR) / "examples" / "verify.py"
MAPPING = HERE / "mapping.csv"
WHEN = (1980, 1, 1, 0, 0, 0)  # of every file in it: the manifest says when it was made


class Archive:
    """One archive that is being written: its files first, then its seal."""

    def __init__(self, file: IO[bytes], period: Period, sample: int) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._period, self._sample_size = period, sample
        self._files: list[Record] = []
        self._manifest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._zip.close()

    def write(self, *, with_ledger: bool) -> int:
        """Write every file but the seal, all of one instant; returns the number of decisions.

        Raises ``NotYetSigned``.
        """
        with snapshot(), tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as table:
            point = contents.log_over(self._period)
            head = contents.head_of(self._period)
            sample = summaries.Sample(self._sample_size, head.root if head else "")
            number = self._write_records(table, sample)
            self._write_summaries(table, sample, point, head)
            if with_ledger:
                self._add("ledger.jsonl", (f"{line}\n" for line in audit.export_lines()))
        self._add("mapping.csv", [MAPPING.read_text(encoding="utf-8")])
        self._add("mapping.md", _mapping_for_people())
        self._add("verify.py", [VERIFIER.read_text(encoding="utf-8")])
        self._add("README.txt", [(HERE / "readme.txt").read_text(encoding="utf-8")])
        self._manifest = _json(self._manifest_of(number, head)).encode()
        return number

    def record(self, by: Principal) -> Event:
        """Append the event that says which archive was made."""
        span = {"from": in_words(self._period.begins_at), "to": in_words(self._period.ends_at)}
        return record_change(
            f"evidence:{self._period.tenant}",
            ChangeKind.EVIDENCE_MADE,
            tenant=self._period.tenant,
            by=by,
            via=Surface.COMMAND,
            name=f"{span['from'][:10]}/{span['to'][:10]}",
            details={**span, "manifest": hashlib.sha256(self._manifest).hexdigest()},
        )

    def seal(self, event: Event) -> None:
        """Add the manifest and its event with the checkpoint over it. Raises ``NotYetSigned``."""
        point = checkpoints.covering(event.pk)
        if point is None:
            raise NotYetSigned(f"Event {event.pk} is under no checkpoint yet.")
        rows = Event.objects.filter(pk=event.pk).values_list(*Link._fields)
        proof = checkpoints.inclusions([event.pk], point)[event.pk]
        sealed = decision_records.with_place(Link(*rows.get()), proof)
        self._add("manifest.json", [self._manifest.decode()])
        seal = {"event": sealed, **decision_records.signed_by(point)}
        self._add("seal.json", [_json(seal)])

    def _write_records(self, table: IO[str], sample: summaries.Sample) -> int:
        """Write the records; the table of them goes into a file that is read afterwards."""
        number = 0

        def lines() -> Iterator[str]:
            nonlocal number
            for record, decided in contents.records(self._period):
                row = summaries.decision_of(record, decided)
                table.write(summaries.line_of(row.values()))
                sample.offer(row)
                number += 1
                yield f"{json.dumps(record, ensure_ascii=False)}\n"

        table.write(summaries.line_of(summaries.DECISION))
        self._add("records.jsonl", lines())
        return number

    def _write_summaries(
        self,
        table: IO[str],
        sample: summaries.Sample,
        point: Checkpoint,
        head: Checkpoint | None,
    ) -> None:
        table.seek(0)
        self._add("decisions.csv", iter(lambda: table.read(1 << 16), ""))
        columns = (*summaries.DECISION, *summaries.FOR_THE_AUDITOR)
        self._add("sample.csv", summaries.lines_of(columns, sample.rows()))
        changes = [*contents.changes(self._period, point)]
        self._add("changes.jsonl", map(_json, changes))
        in_force = summaries.rules_in_force(changes, self._period)
        self._add("rules.jsonl", map(_json, in_force))
        held = summaries.holdings(changes, self._period)
        self._add("holders.csv", summaries.lines_of(summaries.HOLDING, held))
        note = None if head is None else head.note
        self._add("log.json", [_json({**decision_records.signed_by(point), "head": note})])

    def _manifest_of(self, number: int, head: Checkpoint | None) -> Record:
        return {
            "format": FORMAT,
            "version": VERSION,
            "made_by": settings.VERSION,
            "desk": settings.PUBLIC_URL,
            "tenant": self._period.tenant,
            "from": in_words(self._period.begins_at),
            "to": in_words(self._period.ends_at),
            "decisions": number,
            "sample": {"size": self._sample_size, "chance": head.root if head else ""},
            "files": self._files,
        }

    def _add(self, name: str, parts: Iterable[str]) -> None:
        digest, size = hashlib.sha256(), 0
        entry = zipfile.ZipInfo(name, WHEN)
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
        with self._zip.open(entry, "w", force_zip64=True) as file:
            for part in parts:
                raw = part.encode()
                digest.update(raw)
                size += file.write(raw)
        self._files.append({"name": name, "bytes": size, "sha256": digest.hexdigest()})


def _mapping_for_people() -> Iterator[str]:
    rows = csv.DictReader(io.StringIO(MAPPING.read_text(encoding="utf-8")))
    yield (
        "# Which file answers which control\n\nNumbers and our own short words; the text of a "
        "standard is its publisher's. A file is evidence for a control, and not the control: "
        "what is not listed is not mapped.\n"
    )
    standard = ""
    for row in rows:
        if row["standard"] != standard:
            standard = row["standard"]
            yield f"\n## {standard}\n\n| control | about | files | what they show |\n"
            yield "|---|---|---|---|\n"
        yield f"| {row['control']} | {row['about']} | {row['files']} | {row['shows']} |\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
