"""A receiver of webhooks on loopback that checks the signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


class Receiver(ThreadingHTTPServer):
    """Refuses what a careful receiver would refuse."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Door)
        self.taken, self.hosts, self.statuses, self.redirect_to = [], [], [], ""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://localhost:{self.server_port}/hook"


class Door(BaseHTTPRequestHandler):
    def log_message(self, *args):
        """Quiet."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else self._judge(body)
        if status == 204:  # noted before the answer, on which the test looks
            self.server.hosts.append(self.headers["Host"])
            self.server.taken.append((self.headers["webhook-id"], json.loads(body)))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", self.server.redirect_to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _judge(self, body):
        at = self.headers["webhook-timestamp"]
        signed = f"{self.headers['webhook-id']}.{at}.".encode() + body
        mac = base64.b64encode(hmac.new(b"k" * 32, signed, hashlib.sha256).digest()).decode()
        is_fresh = abs(time.time() - int(at)) < 300
        return 204 if is_fresh and self.headers["webhook-signature"] == f"v1,{mac}" else 401
