"""An agent that carries out itself what people signed off: it deletes a file of its own machine.

    ASSENT_TOKEN=… python examples/agent_with_permit.py http://localhost:8000 /srv/drafts/old.txt

The tool is of the kind `agent` (agent_with_permit.yaml; docs/permits.md). Start it again with
the same file, whenever it was interrupted: nothing is proposed or done twice.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import httpx

EVERY_S = 2.0  # as often as one may ask


class Agent:
    def __init__(self, assent: str, token: str, file: Path) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=f"{assent}/api/v1", headers=headers, timeout=30)
        self.file = file
        self.key = hashlib.sha256(str(file).encode()).hexdigest()

    def post(self, path: str, body: Any = None, key: str = "") -> dict[str, Any]:
        answer = self.http.post(path, json=body, headers={"Idempotency-Key": key} if key else {})
        if answer.is_error:
            raise SystemExit(f"{path}: {answer.json().get('detail', answer.status_code)}")
        return dict(answer.json())

    def propose(self) -> str:
        body = {"tool": "delete_file", "arguments": {"path": str(self.file)}}
        return str(self.post("/transactions", body, f"delete {self.key}")["transaction_id"])

    def wait(self, transaction: str) -> dict[str, Any]:
        """Until it is signed off, so that there is a permit, or has ended."""
        while True:
            answer = self.http.get(f"/transactions/{transaction}").raise_for_status().json()
            if "permit" in answer["links"] or answer["outcome"]["is_final"]:
                return dict(answer)
            time.sleep(EVERY_S)

    def act(self, transaction: str) -> str:
        """Redeem the permit, act once, and say what came of it."""
        permit = self.post(f"/transactions/{transaction}/permit")
        self.post(f"/permits/{permit['jti']}/redeem", key=f"redeem {permit['jti']}")
        receipt = f"/transactions/{transaction}/receipt"
        try:
            size = self.file.stat().st_size
            self.file.unlink()
        except FileNotFoundError:
            problem = {"problem": "nothing-happened", "detail": "There is no such file."}
            return str(self.post(receipt, problem)["outcome"]["sentence"])
        done = {"id": f"deleted-{self.key[:16]}", "bytes": size}
        return str(self.post(receipt, {"receipt": done})["outcome"]["sentence"])


def main() -> None:
    agent = Agent(sys.argv[1], os.environ["ASSENT_TOKEN"], Path(sys.argv[2]).absolute())
    transaction = agent.propose()
    print(f"proposed {transaction}", flush=True)
    standing = agent.wait(transaction)
    if standing["outcome"]["is_final"]:
        print(standing["outcome"]["sentence"])
        return
    print(agent.act(transaction))


if __name__ == "__main__":
    main()
