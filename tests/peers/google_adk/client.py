"""ADK's RemoteA2aAgent as a client: a turn for each line that it reads, told as JSON lines.

python client.py <address of the agent> <token>
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings

import httpx

warnings.simplefilter("ignore")  # what is experimental in ADK says so at each use

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import InMemorySessionService  # noqa: E402
from google.genai import types  # noqa: E402

WHO = {"app_name": "peer", "user_id": "somebody"}


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def text_of(part: types.Part) -> str:
    if part.inline_data is not None:
        return (part.inline_data.data or b"").decode()
    return part.text or ""


async def main(address: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = f"{address}/.well-known/agent-card.json"
        agent = RemoteA2aAgent("assent", card, httpx_client=http)
        sessions = InMemorySessionService()
        session = await sessions.create_session(**WHO)
        runner = Runner(app_name="peer", agent=agent, session_service=sessions)
        asked: types.FunctionCall | None = None
        while line := await asyncio.to_thread(sys.stdin.readline):
            answer, asked = asked, None
            results = []
            async for event in runner.run_async(
                user_id="somebody", session_id=session.id, new_message=said(line.strip(), answer)
            ):
                parts = event.content.parts if event.content and event.content.parts else []
                text = " ".join(text_of(part) for part in parts)
                tell(state="event", text=text, error=event.error_message or "")
                results.append(text)
                for part in parts:
                    call = part.function_call
                    if call and call.id in (event.long_running_tool_ids or set()):
                        asked = call
            read = next((text for text in reversed(results) if text), "")
            tell(over=True, results=results, read=read, asked=asked.name if asked else "")


def said(text: str, answer: types.FunctionCall | None) -> types.Content:
    """ADK answers what a remote agent asks as the response of a function call of its own."""
    if answer is None:
        return types.Content(role="user", parts=[types.Part(text=text)])
    response = types.FunctionResponse(id=answer.id, name=answer.name, response={"result": text})
    return types.Content(role="user", parts=[types.Part(function_response=response)])


asyncio.run(main(*sys.argv[1:]))
