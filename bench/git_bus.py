"""Cost of a pass over a git bus, by how many requests the repository has archived.

Processor time of all git programs: the server is a folder of this machine, so its own count too.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from a2a.doors.git_bus.repository import Change, Remote, Repository

FEW, MANY = 10, 10_000  # archived requests
TIMES = 7
BATCH = 20  # requests of a turn
WHO = {"name": "Assent", "email": "assent@assent.invalid"}


def measure(few: int = FEW, many: int = MANY, times: int = TIMES) -> dict[str, float]:
    """Processor time of passes in both repositories, and the ratio of the larger to the smaller."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        buses = [stack.enter_context(bus(folder / str(size), size)) for size in (few, many)]
        figures: dict[str, float] = {}
        for name, run in (("one request", one_request), ("20 in one push", many_requests)):
            rounds = [(run(buses[0]), run(buses[1])) for _ in range(times)]
            for place, size in enumerate((few, many)):
                span = statistics.median(each[place] for each in rounds)
                figures[f"{name}, {size:,}, ms"] = span
            ratio = statistics.median(large / small for small, large in rounds)
            figures[f"{name}, ratio"] = ratio
    return figures


@contextmanager
def bus(folder: Path, archived: int) -> Iterator[Repository]:
    """Our copy of a new repository with that many archived requests."""
    upstream = folder / "upstream.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", upstream], check=True)
    stream = b"".join(_first_commit(archived))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=upstream, input=stream, check=True)
    remote = Remote(str(upstream), "main", allow_local=True)
    with Repository(folder / "ours.git", remote) as repository:
        repository.fetch()
        yield repository


def _first_commit(archived: int) -> Iterator[bytes]:
    yield b"commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 1\nx\n"
    for _ in range(archived):
        request_id = uuid.uuid4()
        content = json.dumps({"jsonrpc": "2.0", "id": str(request_id)}).encode()
        for path in (f"archive/{request_id}.json", f"outbox/res_{request_id}.json"):
            yield b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)


def one_request(bus: Repository) -> float:
    """Processor time of a pass that takes one request and answers it."""
    request = submit(bus, 1)[0]
    began = cpu_ms()
    head = bus.fetch()
    look_at(bus, head, request)
    head = bus.commit(head, claim_of(request), **WHO)
    assert bus.push(head)
    assert bus.push(bus.commit(head, answer_of(request), **WHO))
    bus.tidy()
    return cpu_ms() - began


def many_requests(bus: Repository) -> float:
    """Processor time for each request of a pass that takes many, and pushes once for all."""
    requests = submit(bus, BATCH)
    began = cpu_ms()
    head = bus.fetch()
    for request in requests:
        look_at(bus, head, request)
    head = bus.commits(head, list(map(claim_of, requests)), **WHO)[-1]
    assert bus.push(head)
    assert bus.push(bus.commits(head, list(map(answer_of, requests)), **WHO)[-1])
    bus.tidy()
    return (cpu_ms() - began) / BATCH


def cpu_ms() -> float:
    """Milliseconds of processor time of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (used.ru_utime + used.ru_stime)


def submit(bus: Repository, number: int) -> list[str]:
    """The names of new requests, sent by somebody else."""
    requests = [f"{uuid.uuid4()}.json" for _ in range(number)]
    written = {f"inbox/{request}": request.encode() for request in requests}
    assert bus.push(bus.commit(bus.fetch(), Change("Submitted", written=written), **WHO))
    return requests


def look_at(bus: Repository, head: str, request: str) -> None:
    """Read all that decides about a request."""
    paths = (f"inbox/{request}", f"archive/{request}", f"outbox/res_{request}")
    bus.read(bus.entries(head, paths)[paths[0]])
    bus.author_of(head, paths[0])


def claim_of(request: str) -> Change:
    return Change("Claimed", renamed={f"inbox/{request}": f"processing/{request}"})


def answer_of(request: str) -> Change:
    return Change(
        "Processed",
        renamed={f"processing/{request}": f"archive/{request}"},
        written={f"outbox/res_{request}": request.encode()},
    )


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:<28} {value:10.2f}")
