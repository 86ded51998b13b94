"""a2a-handler's command line as a client: a command for each line that it reads.

python client.py <address of the agent> <token> [--stream]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

address, token, *options = sys.argv[1:]
command = [str(Path(sys.executable).parent / "handler"), "message", "send", *options]
while line := sys.stdin.readline():
    done = subprocess.run(
        [*command, "--url", address, "--bearer-env", "PEER_TOKEN", "--text", line.strip()],
        env=os.environ | {"PEER_TOKEN": token, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    sys.stdout.write(json.dumps({"over": True, "read": done.stdout}) + "\n")
    sys.stdout.flush()
