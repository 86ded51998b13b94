"""A client on the SDK of version 0.3: a turn for each line that it reads, told as JSON lines.

python client.py <address of the agent> <token>
"""

from __future__ import annotations

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TaskState, TextPart


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def texts(parts: list[Part]) -> str:
    return " ".join(getattr(part.root, "text", "") or json.dumps(part.root.data) for part in parts)


async def main(address: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, address).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
        task = None
        while line := await asyncio.to_thread(sys.stdin.readline):
            goes_on = task is not None and task.status.state == TaskState.input_required
            message = Message(
                message_id=str(uuid4()),
                role=Role.user,
                parts=[Part(root=TextPart(text=line.strip()))],
                task_id=task.id if goes_on else None,
                context_id=task.context_id if goes_on else None,
            )
            async for task, _ in client.send_message(message):
                said = task.status.message
                tell(state=task.status.state.value, text=texts(said.parts) if said else "")
            results = [texts(artifact.parts) for artifact in task.artifacts or []]
            read = texts(task.status.message.parts) if task.status.message else ""
            tell(over=True, results=results, read=read)


asyncio.run(main(*sys.argv[1:]))
