"""A push service on loopback, as strict as RFC 8030, 8291 and 8292 allow, and a browser behind it.

It decrypts with the subscription's private key by its own code, not by the library that encrypts.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CURVE = ec.SECP256R1()
MOST_BYTES = 4096


def text_of(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def raw_of(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point_of(key):
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class Browser:
    """One subscription: its keys, and the messages that it could read."""

    def __init__(self, service, name):
        self.key, self.auth = ec.generate_private_key(CURVE), os.urandom(16)
        self.endpoint = f"{service.origin}/push/{name}"
        self.messages, self.headers, self.status = [], [], 201

    @property
    def fields(self):
        """As the page's script sends them."""
        return {
            "endpoint": self.endpoint,
            "p256dh": text_of(point_of(self.key)),
            "auth": text_of(self.auth),
        }

    def shown(self):
        """What is on the screen now, by its tag."""
        screen = {}
        for message in self.messages:
            if "show" in message:
                screen[message["show"]["tag"]] = message["show"]
            else:
                screen.pop(message["close"], None)
        return list(screen.values())

    def read(self, body):
        """RFC 8291, section 4, and RFC 8188, section 2."""
        salt, size, length = body[:16], int.from_bytes(body[16:20]), body[20]
        point, sealed = body[21 : 21 + length], body[21 + length :]
        assert len(sealed) <= size
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, point)
        info = b"WebPush: info\x00" + point_of(self.key) + point
        shared = _derived(self.auth, info, 32, self.key.exchange(ec.ECDH(), theirs))
        key = _derived(salt, b"Content-Encoding: aes128gcm\x00", 16, shared)
        nonce = _derived(salt, b"Content-Encoding: nonce\x00", 12, shared)
        plain = AESGCM(key).decrypt(nonce, sealed, None).rstrip(b"\x00")
        assert plain.endswith(b"\x02")
        return json.loads(plain[:-1])


def _derived(salt, info, length, secret):
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)


class PushService(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, application_key):
        super().__init__(("127.0.0.1", 0), Door)
        self.application_key, self.browsers, self.refusals = application_key, {}, []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server_port}"

    def browser(self, name="one"):
        self.browsers[f"/push/{name}"] = found = Browser(self, name)
        return found


class Door(BaseHTTPRequestHandler):
    def log_message(self, *args):
        """Quiet."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        browser = self.server.browsers.get(self.path)
        if browser is None:
            self._answer(404)
        elif browser.status != 201:
            self._answer(browser.status)
        elif fault := self._fault(body):
            self.server.refusals.append(fault)
            self._answer(400)
        else:
            browser.headers.append(dict(self.headers))
            browser.messages.append(browser.read(body))
            self._answer(201)

    def _answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _fault(self, body):
        headers = self.headers
        if len(body) > MOST_BYTES:
            return f"{len(body)} bytes"
        if headers["Content-Encoding"] != "aes128gcm":
            return "not aes128gcm"
        if not re.fullmatch(r"\d{1,7}", headers["TTL"] or "") or int(headers["TTL"]) > 2_419_200:
            return f"TTL {headers['TTL']}"
        if headers["Urgency"] not in {"very-low", "low", "normal", "high"}:
            return f"Urgency {headers['Urgency']}"
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", headers["Topic"] or ""):
            return f"Topic {headers['Topic']}"
        return self._fault_of_signature(headers["Authorization"] or "")

    def _fault_of_signature(self, header):
        """RFC 8292, with what Mozilla's and Apple's services ask for."""
        found = re.fullmatch(r"vapid t=([\w.-]+), ?k=([\w-]+)", header)
        if found is None:
            return f"Authorization {header}"
        token, key = found.groups()
        if key != self.server.application_key:
            return "not the key that the browser subscribed with"
        public = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, raw_of(key))
        try:
            claims = jwt.decode(
                token,
                public,
                algorithms=["ES256"],
                audience=self.server.origin,
                options={"require": ["aud", "exp", "sub"]},
            )
        except jwt.InvalidTokenError as fault:
            return f"{type(fault).__name__}: {fault}"
        if claims["exp"] - time.time() > 24 * 60 * 60:
            return "exp is more than a day ahead"
        return "" if claims["sub"].startswith(("https://", "mailto:")) else f"sub {claims['sub']}"
