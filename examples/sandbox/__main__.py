"""``python -m examples.sandbox``: serve the sandbox until it is stopped."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

import examples.sandbox
from examples.sandbox.server import Sandbox


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.sandbox", description=examples.sandbox.__doc__
    )
    parser.add_argument("--port", type=int, default=8002, help="0: any free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--data", default=":memory:", metavar="FILE.sqlite")
    parser.add_argument("--public-url", default="", help="where browsers reach it, for receipts")
    options = parser.parse_args()

    try:
        sandbox = Sandbox(
            options.port, options.data, options.host, options.public_url
        ).in_background()
    except OSError as error:
        address = f"{options.host}:{options.port}"
        sys.exit(f"The sandbox cannot listen on {address}: {error.strerror}.")
    print(f"The outside world is at {sandbox.url}", flush=True)

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    sandbox.stop()


if __name__ == "__main__":
    main()
