"""A witness for transparency logs (C2SP tlog-witness): small, strict, and independent of Assent.

Run it where the log's operator has no access. It cosigns a checkpoint only if the log's key signed
it and it continues the last checkpoint that this witness cosigned, which it keeps in a file.

    python witness.py --name witness.example/w1 --state state.json --key key.hex \\
        --log 'assent.example/log+1a2b3c4d+AQ…' --port 7380

It prints its own verifier key. Needs Python 3.11 and the package ``cryptography``.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

LARGEST_REQUEST = 64 * 1024  # bytes
MOST_HASHES = 63
SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


class Refused(Exception):
    """A request is refused: the response instead of a cosignature."""

    def __init__(self, status: int, body: str, kind: str = "text/plain; charset=utf-8") -> None:
        super().__init__(body)
        self.status, self.body, self.kind = status, body, kind


@dataclass(frozen=True)
class Log:
    """A log that this witness watches."""

    origin: str
    key_id: bytes
    public: bytes

    @classmethod
    def parse(cls, verifier_key: str) -> Log:
        name, _, rest = verifier_key.partition("+")
        key_id, _, material = rest.partition("+")
        raw = base64.b64decode(material, validate=True)
        if len(raw) != 33 or raw[0] != 1 or key_id_of(name, 1, raw[1:]).hex() != key_id:
            raise SystemExit(f"{verifier_key!r} is not an Ed25519 verifier key of a log.")
        return cls(name, key_id_of(name, 1, raw[1:]), raw[1:])

    def signed(self, text: str, lines: Sequence[str]) -> bool:
        for line in lines:
            mark, _, rest = line.partition(" ")
            name, _, encoded = rest.partition(" ")
            raw = decoded(encoded)
            if mark == "—" and name == self.origin and raw[:4] == self.key_id:
                try:
                    Ed25519PublicKey.from_public_bytes(self.public).verify(raw[4:], text.encode())
                except InvalidSignature:
                    return False
                return True
        return False


class Witness:
    """A signing key, and the newest checkpoint of each log that it has cosigned."""

    def __init__(self, name: str, key: Ed25519PrivateKey, state: Path, logs: list[Log]) -> None:
        self.name, self._key, self._state = name, key, state
        self._logs = {log.origin: log for log in logs}
        self._seen: dict[str, dict[str, str | int]] = (
            json.loads(state.read_text()) if state.exists() else {}
        )
        self._lock = threading.Lock()

    def verifier_key(self) -> str:
        public = self._key.public_key().public_bytes_raw()
        material = base64.b64encode(b"\x04" + public).decode()
        return f"{self.name}+{key_id_of(self.name, 4, public).hex()}+{material}"

    def add_checkpoint(self, request: str) -> str:
        """The signature line. Raises ``Refused``."""
        old, proof, note = parted(request)
        text, blank, signatures = note.rpartition("\n\n")
        text += "\n"
        origin, size, root = tree_head(text)
        log = self._logs.get(origin)
        if log is None:
            raise Refused(404, "This witness does not watch that log.\n")
        if not blank or not log.signed(text, signatures.splitlines()):
            raise Refused(403, "No key of the log signed this.\n")
        if old > size:
            raise Refused(400, "The old size is larger than the checkpoint's.\n")
        with self._lock:  # compare and store as one step
            self._compare(origin, old, size, root, proof)
            self._remember(origin, size, root)
        return self._cosignature(text)

    def _compare(self, origin: str, old: int, size: int, root: bytes, proof: list[bytes]) -> None:
        seen = self._seen.get(origin, {"size": 0, "root": hashlib.sha256().hexdigest()})
        if old != seen["size"]:
            raise Refused(409, f"{seen['size']}\n", "text/x.tlog.size")
        old_root = bytes.fromhex(str(seen["root"]))
        if old == size and root != old_root:
            raise Refused(409, f"{seen['size']}\n", "text/x.tlog.size")
        if not is_consistent(old, size, old_root, root, proof):
            raise Refused(422, "The proof does not lead from the old tree to the new one.\n")

    def _remember(self, origin: str, size: int, root: bytes) -> None:
        self._seen[origin] = {"size": size, "root": root.hex()}
        draft = self._state.with_suffix(".new")
        with draft.open("w") as file:
            json.dump(self._seen, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._state)
        folder = os.open(self._state.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def _cosignature(self, text: str) -> str:
        at = int(time.time())
        signature = self._key.sign(f"cosignature/v1\ntime {at}\n{text}".encode())
        public = self._key.public_key().public_bytes_raw()
        raw = key_id_of(self.name, 4, public) + at.to_bytes(8, "big") + signature
        return f"— {self.name} {base64.b64encode(raw).decode()}\n"


def parted(request: str) -> tuple[int, list[bytes], str]:
    """Old size, consistency proof and note. Raises ``Refused``."""
    head, blank, note = request.partition("\n\n")
    first, *rest = head.split("\n")
    word, _, old = first.partition(" ")
    proof = [decoded(line) for line in rest]
    if not blank or word != "old" or not SIZE.fullmatch(old) or len(proof) > MOST_HASHES:
        raise Refused(400, "Send 'old <size>', the proof, an empty line and a checkpoint.\n")
    if any(len(node) != 32 for node in proof):
        raise Refused(400, "A line of the proof is the base64 of 32 bytes.\n")
    return int(old), proof, note


def tree_head(text: str) -> tuple[str, int, bytes]:
    lines = text.split("\n")
    if len(lines) < 4 or not SIZE.fullmatch(lines[1]) or len(decoded(lines[2])) != 32:
        raise Refused(400, "This is not a checkpoint.\n")
    return lines[0], int(lines[1]), decoded(lines[2])


def is_consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: list[bytes]) -> bool:
    """RFC 9162, section 2.1.4.2."""
    if old in {0, new}:
        return not proof
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        return False
    here, last = old - 1, new - 1
    while here & 1:
        here, last = here >> 1, last >> 1
    of_old = of_new = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if here & 1 or here == last:
            of_old, of_new = parent(node, of_old), parent(node, of_new)
            while here and not here & 1:
                here, last = here >> 1, last >> 1
        else:
            of_new = parent(of_new, node)
        here, last = here >> 1, last >> 1
    return last == 0 and of_old == old_root and of_new == new_root


def parent(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def key_id_of(name: str, kind: int, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def handler_of(witness: Witness) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds without data
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                self._answer(200, witness.add_checkpoint(self._request()))
            except Refused as refusal:
                self._answer(refusal.status, refusal.body, refusal.kind)

        def _request(self) -> str:
            size = self.headers.get("Content-Length", "")
            if self.path != "/add-checkpoint":
                raise Refused(404, "POST to /add-checkpoint.\n")
            if not size.isascii() or not size.isdigit() or int(size) > LARGEST_REQUEST:
                self.close_connection = True
                raise Refused(413, "Send a Content-Length of at most 64 KiB.\n")
            try:
                return self.rfile.read(int(size)).decode()
            except UnicodeDecodeError:
                raise Refused(400, "The request is not UTF-8.\n") from None

        def _answer(self, status: int, body: str, kind: str = "text/plain; charset=utf-8") -> None:
            raw = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            print(f"{self.address_string()} {format % args}", flush=True)

    return Handler


def own_key(path: Path) -> Ed25519PrivateKey:
    """The key in this file; created at the first start."""
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(os.urandom(32).hex())
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--name", required=True, help="name of this witness, such as example.org/w1"
    )
    parser.add_argument("--key", required=True, type=Path, help="file of the private key")
    parser.add_argument(
        "--state", required=True, type=Path, help="file of the cosigned checkpoints"
    )
    parser.add_argument("--log", required=True, action="append", help="verifier key of a log")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7380)
    options = parser.parse_args()
    logs = [Log.parse(verifier_key) for verifier_key in options.log]
    witness = Witness(options.name, own_key(options.key), options.state, logs)
    server = ThreadingHTTPServer((options.host, options.port), handler_of(witness))
    print(f"http://{options.host}:{server.server_port} {witness.verifier_key()}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
