"""Signed notes and checkpoints as C2SP has them: signed-note, tlog-checkpoint, tlog-cosignature.

Pure: text and keys go in and come out. Ed25519 only (types 0x01 and 0x04).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

SIGNATURE = 0x01  # of the log itself
COSIGNATURE = 0x04  # of a witness, with the time at which it looked
LARGEST_NOTE = 64 * 1024  # bytes
_NAME = re.compile(r"[^\s+\x00-\x1f]+")
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


class NoteRefused(Exception):
    """The text is no note, or is not signed by whom it must be signed."""


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """The signer's name, algorithm and public key. As text: ``<name>+<key id>+<type and key>``."""

    name: str
    kind: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        sealed = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(sealed).digest()[:4]

    def __str__(self) -> str:
        material = base64.b64encode(bytes([self.kind]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{material}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Raises ``NoteRefused``."""
        name, _, rest = text.strip().partition("+")
        key_id, _, material = rest.partition("+")
        raw = _decoded(material)
        if not _NAME.fullmatch(name) or len(raw) != 33 or raw[0] not in {SIGNATURE, COSIGNATURE}:
            raise NoteRefused(f"{text[:200]!r} is no Ed25519 verifier key.")
        key = cls(name, raw[0], raw[1:])
        if key.key_id.hex() != key_id:
            raise NoteRefused(f"The key id of {text[:200]!r} is not that of its key.")
        return key

    def owns(self, signature: Signature) -> bool:
        return (signature.name, signature.key_id) == (self.name, self.key_id)

    def verifies(self, signature: Signature, text: str) -> bool:
        """True if this key made the signature of this text (a cosignature: at its time)."""
        raw, signed = signature.raw, text.encode()
        if self.kind == COSIGNATURE:
            if len(raw) != 72 or signature.cosigned_at >= 1 << 63:
                return False
            signed, raw = cosigned(text, signature.cosigned_at), raw[8:]
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(raw, signed)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line."""

    name: str
    key_id: bytes
    raw: bytes

    def __str__(self) -> str:
        return f"— {self.name} {base64.b64encode(self.key_id + self.raw).decode()}\n"

    @property
    def cosigned_at(self) -> int:
        """Of a cosignature: seconds since the epoch."""
        at: int = struct.unpack(">Q", self.raw[:8])[0] if len(self.raw) == 72 else 0
        return at

    @classmethod
    def parse(cls, line: str) -> Signature:
        parts = line.split(" ")
        raw = _decoded(parts[2]) if len(parts) == 3 else b""
        if len(raw) < 5 or parts[0] != "—" or not _NAME.fullmatch(parts[1]):
            raise NoteRefused(f"{line[:200]!r} is no signature line.")
        return cls(parts[1], raw[:4], raw[4:])


@dataclass(frozen=True, slots=True)
class Note:
    """A text and who signed it."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return self.text + "\n" + "".join(map(str, self.signatures))

    @classmethod
    def parse(cls, text: str) -> Note:
        """Raises ``NoteRefused``."""
        if len(text.encode()) > LARGEST_NOTE:
            raise NoteRefused("The note is larger than any honest one.")
        if any(ord(character) < 0x20 and character != "\n" for character in text):
            raise NoteRefused("A note has no control characters.")
        body, blank, lines = text.rpartition("\n\n")
        if not blank or not lines.endswith("\n"):
            raise NoteRefused("A note ends in a blank line and signature lines.")
        return cls(body + "\n", signatures_of(lines))

    def by(self, keys: Iterable[VerifierKey]) -> tuple[VerifierKey, ...]:
        """Those of these keys that signed. Raises ``NoteRefused`` if one of them did so wrongly."""
        valid = []
        for key in keys:
            for signature in filter(key.owns, self.signatures):
                if not key.verifies(signature, self.text):
                    raise NoteRefused(f"The signature of {key.name} is not its key's.")
                valid.append(key)
        return tuple(dict.fromkeys(valid))

    def with_signatures(self, more: Iterable[Signature]) -> Note:
        return replace(self, signatures=tuple(dict.fromkeys((*self.signatures, *more))))


@dataclass(frozen=True, slots=True)
class TreeHead:
    """The statement of a checkpoint: whose log, how many leaves, which root.

    ``previous`` is the size of the checkpoint before it, an extension line of ours; ``None`` where
    the note has no such line.
    """

    origin: str
    size: int
    root: bytes
    previous: int | None = None

    def __str__(self) -> str:
        text = f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"
        return text if self.previous is None else f"{text}previous {self.previous}\n"

    @classmethod
    def parse(cls, text: str) -> TreeHead:
        """Raises ``NoteRefused``. Other extension lines are not read."""
        lines = text.split("\n")
        if len(lines) < 4 or not all(lines[:-1]) or not _SIZE.fullmatch(lines[1]):
            raise NoteRefused("The text of a checkpoint is an origin, a size and a root.")
        root = _decoded(lines[2])
        if len(root) != 32:
            raise NoteRefused("The root of a checkpoint has 32 bytes.")
        word, _, previous = lines[3].partition(" ")
        is_chained = word == "previous" and _SIZE.fullmatch(previous) is not None
        return cls(lines[0], int(lines[1]), root, int(previous) if is_chained else None)


def signatures_of(lines: str) -> tuple[Signature, ...]:
    """Signature lines, each ending in a newline. Raises ``NoteRefused``."""
    return tuple(Signature.parse(line) for line in lines.removesuffix("\n").split("\n"))


def signed(text: str, name: str, key: Ed25519PrivateKey) -> Note:
    """A note with one signature of its log."""
    verifier = VerifierKey(name, SIGNATURE, key.public_key().public_bytes_raw())
    return Note(text, (Signature(name, verifier.key_id, key.sign(text.encode())),))


def cosigned(text: str, at: int) -> bytes:
    """The text that a witness signs: that it saw this, then."""
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def notes_in(text: str) -> list[Note]:
    """All notes of a file into which they were appended, a blank line after each.

    Raises ``NoteRefused``.
    """
    notes, lines = [], text.splitlines(keepends=True)
    begin = 0
    for number, line in enumerate(lines):
        is_last_signature = line.startswith("— ") and not "".join(
            lines[number + 1 : number + 2]
        ).startswith("— ")
        if is_last_signature:
            notes.append(Note.parse("".join(lines[begin : number + 1]).lstrip("\n")))
            begin = number + 1
    if "".join(lines[begin:]).strip():
        raise NoteRefused("The file ends in the middle of a note.")
    return notes


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return raw if base64.b64encode(raw).decode() == text else b""
