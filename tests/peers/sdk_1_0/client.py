"""The Python SDK's client: a message for each line that it reads, and what it last shows.

python client.py <address of the agent> <token> <JSONRPC|HTTP+JSON>
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def texts(parts: Sequence[Any]) -> str:
    return " ".join(part.text for part in parts if part.text)


async def main(address: str, token: str, binding: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        config = ClientConfig(
            httpx_client=http, supported_protocol_bindings=[binding], use_client_preference=True
        )
        client = await ClientFactory(config).create_from_url(address)
        while line := await asyncio.to_thread(sys.stdin.readline):
            shown = []
            part = pb.Part(text=line.strip())
            message = pb.Message(message_id=str(uuid4()), role="ROLE_USER", parts=[part])
            async for update in client.send_message(pb.SendMessageRequest(message=message)):
                kind = update.WhichOneof("payload")
                news = getattr(update, kind)
                is_artifact = kind == "artifact_update"
                shown.append(texts((news.artifact if is_artifact else news.status.message).parts))
            tell(over=True, read=next((text for text in reversed(shown) if text), ""), shown=shown)


asyncio.run(main(*sys.argv[1:]))
