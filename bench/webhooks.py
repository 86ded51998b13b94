"""Webhooks a second by couriers, beside bare keep-alive POSTs to the same receiver."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from contextlib import ExitStack
from typing import Any

from approvals.processes import COURIER
from bench.engines import engines, free_port, listens, process

IN_FLIGHT = 8  # as many as a courier has to one recipient


def webhooks_per_second(number: int = 1000, couriers: int = 2) -> dict[str, float]:
    """Deliveries a second from a full outbox to a receiver on loopback, by two couriers."""
    with _Receiver() as port:
        bare = asyncio.run(_bare(port, number))
        ids = _owed(port, number)
        environment = {"ASSENT_WEBHOOK_NETWORKS": "127.0.0.0/8"}
        with ExitStack() as stack:
            for _ in range(couriers):
                stack.enter_context(process(*COURIER.command, **environment))
            rate = _rate_of(ids)
    return {"webhooks/s": rate, "bare POSTs/s": bare, "ratio": rate / bare}


def _owed(port: int, number: int) -> list[int]:
    """Deliveries to ten agents, of one event each."""
    from bench.execution import prepared
    from ledger.models import Agent, Delivery, Event

    ((pk, _),) = prepared(1)
    agents = [
        Agent.objects.get_or_create(tenant_id="bench", slug=f"told-{n}", defaults={"name": "Told"})
        for n in range(10)
    ]
    for agent, _ in agents:
        agent.webhook_url = f"http://127.0.0.1:{port}/"
        agent.webhook_secret = "whsec_" + "A" * 43 + "="
        agent.save()
    event = Event.objects.get(subject=pk)
    ids = []
    for _ in range(number // 10):
        event.pk, event._state.adding = None, True
        event.save(force_insert=True)
        rows = [
            Delivery(event=event, channel="webhook", recipient=f"bench/{agent.slug}")
            for agent, _ in agents
        ]
        ids += [row.pk for row in Delivery.objects.bulk_create(rows)]
    return ids


def _rate_of(ids: list[int]) -> float:
    """Deliveries a second, between the first and the last tenth."""
    from ledger.models import Delivery

    done = Delivery.objects.filter(pk__in=ids, state="done")
    deadline = time.monotonic() + 120
    while done.count() < len(ids) and time.monotonic() < deadline:
        time.sleep(0.2)
    at = sorted(done.values_list("done_at", flat=True))
    assert len(at) == len(ids), f"{len(at)} of {len(ids)} delivered"
    first, last = len(at) // 10, len(at) - 1
    return (last - first) / (at[last] - at[first]).total_seconds()


async def _bare(port: int, number: int) -> float:
    """The same number of POSTs by httpx over as many kept connections, and nothing else."""
    import httpx

    body = b'{"type": "transaction.committed"}' * 12
    left = iter(range(number))
    async with httpx.AsyncClient() as client:

        async def post_all() -> None:
            for _ in left:
                await client.post(f"http://127.0.0.1:{port}/", content=body)

        began = time.perf_counter()
        await asyncio.gather(*(post_all() for _ in range(IN_FLIGHT)))
        return number / (time.perf_counter() - began)


class _Receiver:
    """A process that answers every POST with 204; its port."""

    def __enter__(self) -> int:
        self.port = free_port()
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=_receive, args=(self.port,), daemon=True)
        self.process.start()
        while not listens(self.port):
            time.sleep(0.05)
        return self.port

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.join()


def _receive(port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", port)
        await server.serve_forever()

    asyncio.run(run())


def main() -> None:
    """``python -m bench.webhooks``: this part alone."""
    with engines():
        for name, value in webhooks_per_second().items():
            print(f"{name:<28} {value:10.2f}")


if __name__ == "__main__":
    main()
