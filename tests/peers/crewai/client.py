"""CrewAI's delegation as a client: a turn for each line that it reads, told as JSON lines.

python client.py <address of the agent> <token>
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

# It would report to its maker.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
os.environ |= {"CREWAI_TRACING_ENABLED": "false"}

# Its panels are drawn to where our lines go.
lines, sys.stdout = sys.stdout, sys.stderr

from crewai.a2a.auth.client_schemes import BearerTokenAuth  # noqa: E402
from crewai.a2a.utils.delegation import aexecute_a2a_delegation  # noqa: E402


def tell(**said: object) -> None:
    lines.write(json.dumps(said) + "\n")
    lines.flush()


async def main(address: str, token: str) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        result = await aexecute_a2a_delegation(
            endpoint=address,
            auth=BearerTokenAuth(token=token),
            timeout=60,
            task_description=line.strip(),
        )
        tell(over=True, read=result.get("result") or "", state=str(result["status"]))


asyncio.run(main(*sys.argv[1:]))
