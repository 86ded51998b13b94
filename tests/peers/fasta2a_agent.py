"""A remote agent built on another library (fasta2a), for tests: echo, ask, slow, fail and read.

    python tests/peers/fasta2a_agent.py --port 9000 [--gone ask] [--version 2.0.2]

It keeps its tasks in memory, so that a restart forgets them.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import uvicorn
from fasta2a import FastA2A, Skill, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.storage import InMemoryStorage

QUESTION = "Which of the two dates is right?"


class Reader(Worker[list[Any]]):
    """Does as the message says: its data part names the skill."""

    async def run_task(self, params: Any) -> None:
        message = params["message"]
        said = next((part["data"] for part in message["parts"] if "data" in part), {})
        text = " ".join(part["text"] for part in message["parts"] if "text" in part)
        skill = said.get("skill", "echo") if isinstance(said, dict) else "echo"
        if skill == "slow":
            await self.storage.update_task(params["id"], state="working")
            await asyncio.sleep(3)
        if skill == "fail":
            raise RuntimeError("as asked")
        if skill == "ask":
            question = {
                "role": "agent",
                "parts": [{"text": QUESTION}],
                "message_id": str(uuid4()),
                "kind": "message",
            }
            await self._rest(params["id"], "input-required", question)
            return
        found = {"echo": text or said.get("input")}
        artifact = {"artifact_id": "echo", "name": "echo", "parts": [{"data": found}]}
        await self.storage.update_task(params["id"], state="completed", new_artifacts=[artifact])

    async def _rest(self, task_id: str, state: str, message: Any) -> None:
        """The library's own update knows no status message; the task in its memory does."""
        await self.storage.update_task(task_id, state=state)
        self.storage.tasks[task_id]["status"]["message"] = message

    async def cancel_task(self, params: Any) -> None:
        await self.storage.update_task(params["id"], state="canceled")

    def build_message_history(self, history: list[Any]) -> list[Any]:
        return history

    def build_artifacts(self, result: Any) -> list[Any]:
        return []


def agent(port: int, gone: list[str], version: str) -> FastA2A:
    storage: Any = InMemoryStorage()
    broker = InMemoryBroker()
    worker = Reader(broker=broker, storage=storage)

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, worker.run():
            yield

    skills = [
        Skill(
            id=name,
            name=name,
            description=f"The skill {name}.",
            tags=["test"],
            input_modes=["text/plain" if name == "read" else "application/json"],
            output_modes=["application/json"],
        )
        for name in ("echo", "ask", "slow", "fail", "read")
        if name not in gone
    ]
    return FastA2A(
        storage=storage,
        broker=broker,
        name="Fast agent",
        url=f"http://127.0.0.1:{port}",
        version=version,
        description="Of another library.",
        skills=skills,
        lifespan=lifespan,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gone", action="append", default=[])
    parser.add_argument("--version", default="2.0.1")
    said = parser.parse_args()
    uvicorn.run(agent(said.port, said.gone, said.version), port=said.port, log_level="warning")
