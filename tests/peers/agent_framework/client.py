"""Microsoft's agent framework as a client: a turn for each line that it reads, as JSON lines.

python client.py <address of the agent> <token>
"""

from __future__ import annotations

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver
from a2a.types import TaskState
from agent_framework_a2a import A2AAgent


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def main(address: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, address).get_agent_card()
        agent = A2AAgent(agent_card=card, http_client=http)
        session = agent.create_session()
        while line := await asyncio.to_thread(sys.stdin.readline):
            results = []
            async for update in agent.run(line.strip(), stream=True, session=session):
                tell(state="update", text=update.text)
                results.append(update.text)
            state = (session.service_session_id or {}).get("task_state")
            tell(
                over=True,
                results=results,
                read=next((text for text in reversed(results) if text), ""),
                state=TaskState.Name(state) if state else "",
            )


asyncio.run(main(*sys.argv[1:]))
