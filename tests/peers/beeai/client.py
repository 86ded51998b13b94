"""BeeAI's A2AAgent as a client: a turn for each line that it reads, told as JSON lines.

python client.py <address of the agent> <token>
"""

from __future__ import annotations

import asyncio
import json
import sys

import httpx
from beeai_framework.adapters.a2a.agents.agent import A2AAgent
from beeai_framework.memory import UnconstrainedMemory


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def main(address: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        agent = A2AAgent(url=address, memory=UnconstrainedMemory())
        while line := await asyncio.to_thread(sys.stdin.readline):
            output = await agent.run(line.strip(), httpx_client=http)
            tell(over=True, read=output.last_message.text)


asyncio.run(main(*sys.argv[1:]))
