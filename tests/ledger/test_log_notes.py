"""Notes, keys and cosignatures are those of C2SP: what others made is read, and theirs is ours."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.foundation.crypto import signed_notes
from ledger.foundation.crypto.signed_notes import (
    COSIGNATURE,
    SIGNATURE,
    Note,
    NoteRefused,
    Signature,
    TreeHead,
    VerifierKey,
)

# The example of Go's golang.org/x/mod/sumdb/note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
NOTE = (
    f"{TEXT}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2p"
    "ZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_a_note_that_go_signed_is_verified():
    note = Note.parse(NOTE)

    assert note.by([VerifierKey.parse(PETER)]) == (VerifierKey.parse(PETER),)
    assert (note.text, str(note)) == (TEXT, NOTE)


def test_we_sign_as_go_does():
    key = Ed25519PrivateKey.from_private_bytes(PETERS_SEED)

    assert str(signed_notes.signed(TEXT, "PeterNeumann", key)) == NOTE


def test_a_verifier_key_reads_as_it_was_written():
    assert str(VerifierKey.parse(PETER)) == PETER


@pytest.mark.parametrize(
    "text",
    [
        "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3",
        "",
    ],
)
def test_what_is_no_verifier_key_is_refused(text):
    with pytest.raises(NoteRefused):
        VerifierKey.parse(text)


def test_one_changed_letter_refuses_the_note():
    changed = Note.parse(NOTE.replace("cryptography", "cryptographY"))

    with pytest.raises(NoteRefused, match="PeterNeumann"):
        changed.by([VerifierKey.parse(PETER)])


def test_signatures_of_others_are_passed_over():
    other = VerifierKey("PeterNeumann", SIGNATURE, bytes(32))

    assert Note.parse(NOTE).by([other]) == ()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT + "\n",
        NOTE.rstrip("\n"),
        NOTE + "not a signature\n",
        NOTE.replace("— Peter", "- Peter"),
        NOTE.replace("you", "\tyou"),
        f"{TEXT}\n— PeterNeumann AAAA\n",
        f"{TEXT}\n— Peter+Neumann x08go/ZJkuBS9UG=\n",
        "x" * 70_000 + NOTE,
    ],
)
def test_what_is_no_note_is_refused(text):
    with pytest.raises(NoteRefused):
        Note.parse(text)


def test_a_cosignature_binds_the_time_at_which_the_witness_looked():
    """The signed message as tlog-cosignature spells it out."""
    key = Ed25519PrivateKey.generate()
    witness = VerifierKey("witness.example/w1", COSIGNATURE, key.public_key().public_bytes_raw())
    text = str(TreeHead("example.com/behind-the-sofa", 20852163, bytes(32)))
    at = 1679315147
    message = f"cosignature/v1\ntime {at}\n{text}".encode()
    line = Signature(witness.name, witness.key_id, at.to_bytes(8, "big") + key.sign(message))
    later = Signature(witness.name, witness.key_id, (at + 1).to_bytes(8, "big") + line.raw[8:])

    assert witness.verifies(line, text)
    assert line.cosigned_at == at
    assert not witness.verifies(later, text)
    assert not witness.verifies(line, text.replace("20852163", "20852164"))


@pytest.mark.parametrize(
    "text",
    [
        "origin\n5\n",
        "origin\n05\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "origin\n-5\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "origin\n5\nCsUYapGGPo4dkMgIAUqom\n",
        "\n5\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text):
    with pytest.raises(NoteRefused):
        TreeHead.parse(text)


def test_the_notes_of_a_file_are_read_one_by_one():
    two = [Note.parse(NOTE), Note.parse("Another.\n" + NOTE)]

    assert signed_notes.notes_in("".join(f"{note}\n" for note in two)) == two
    assert signed_notes.notes_in("") == []
    with pytest.raises(NoteRefused):
        signed_notes.notes_in(f"{NOTE}\nand then\n")
