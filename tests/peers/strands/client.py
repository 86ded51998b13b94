"""Strands' A2AAgent as a client: a turn for each line that it reads, told as JSON lines.

python client.py <address of the agent> <token>
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings

import httpx

warnings.simplefilter("ignore")

from a2a.client import ClientConfig  # noqa: E402
from strands.agent.a2a_agent import A2AAgent  # noqa: E402


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def main(address: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        agent = A2AAgent(address, client_config=ClientConfig(httpx_client=http))
        while line := await asyncio.to_thread(sys.stdin.readline):
            result = await agent.invoke_async(line.strip())
            tell(over=True, read=str(result))


asyncio.run(main(*sys.argv[1:]))
