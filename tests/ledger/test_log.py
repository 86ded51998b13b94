"""The transparency log: what is sealed is under a signed tree, and nobody takes it back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pymerkle
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import DatabaseError, connection
from django.db.transaction import atomic

from ledger.foundation.crypto import merkle, signed_notes
from ledger.foundation.crypto.signed_notes import Note, TreeHead
from ledger.models import Checkpoint, Event, Tile
from ledger.proof.log import checkpoint_proof, checkpoints
from ledger.proof.log.checkpoint_proof import Broken
from ledger.proof.log.checkpoints import Contradiction
from tests.ledger.log_leaves import leaves


def test_a_checkpoint_is_a_note_that_others_can_read(events):
    events(5)

    point = checkpoints.make()

    assert point.note.split("\n")[:2] == ["localhost:8000/log", "5"]
    another = pymerkle.InmemoryTree(algorithm="sha256")
    for leaf in leaves():
        another.append_entry(leaf)
    assert TreeHead.parse(checkpoints.signed_note(point).text).root == another.get_state()
    key = checkpoints.key_of(point)
    assert key.name == "localhost:8000/log"
    assert checkpoints.signed_note(point).by([key]) == (key,)


def test_nothing_new_makes_no_checkpoint_and_what_is_new_makes_one(events):
    events(3)
    first = checkpoints.make()

    assert checkpoints.make() is None
    events(2)
    second = checkpoints.make()

    assert [first.size, second.size] == [3, 5]
    assert second.root == merkle.root_of(leaves()).hex()


def test_without_a_key_no_checkpoint_is_made(events, settings):
    events(1)
    settings.AUDIT_KEY = ""

    assert checkpoints.make() is None


def test_the_tree_over_several_tiles_is_that_of_all_events(events, trusted, monkeypatch):
    monkeypatch.setattr(checkpoints, "MOST_EVENTS", 300)
    events(700)

    sizes = []
    while point := checkpoints.make():
        sizes.append(point.size)
        assert point.root == merkle.root_of(leaves()[: point.size]).hex()

    assert sizes == [300, 600, 700]
    assert {(tile.level, tile.index, len(tile.hashes) // 32) for tile in Tile.objects.all()} == {
        (0, 0, 256),
        (0, 1, 256),
        (0, 2, 188),
        (1, 0, 2),
    }
    covered = checkpoint_proof.verify(trusted)
    assert (covered.checkpoints, covered.size, covered.uncovered) == (3, 700, 0)


def test_a_checkpoint_costs_what_is_new(events, django_assert_max_num_queries):
    events(600)
    checkpoints.make()
    events(1)

    with django_assert_max_num_queries(16):
        checkpoints.make()


def test_every_event_is_proved_and_every_two_sizes_are_consistent(events):
    for count in (1, 3, 260):
        events(count)
        checkpoints.make()
    point = checkpoints.latest()
    ids = list(Event.objects.order_by("pk").values_list("pk", flat=True))

    proofs = checkpoints.inclusions(ids, point)

    assert [proofs[event_id].index for event_id in ids] == list(range(264))
    for event_id, leaf in zip(ids, leaves(), strict=True):
        proof = proofs[event_id]
        assert proof.leaf_hash == merkle.leaf_hash(leaf)
        assert (
            merkle.implied_root(proof.leaf_hash, proof.index, 264, proof.path).hex() == point.root
        )
    roots = {size: merkle.root_of(leaves()[:size]) for size in (1, 4, 100, 264)}
    for old, new in [(1, 4), (4, 264), (100, 264), (264, 264)]:
        path = checkpoints.consistency(old, new)
        assert merkle.is_consistent(old, new, roots[old], roots[new], path)


def test_an_event_that_is_newer_than_the_last_checkpoint_has_no_proof_yet(events):
    events(1)
    point = checkpoints.make()
    events(1)
    newest = Event.objects.order_by("-pk").first()

    assert checkpoints.inclusions([newest.pk], point) == {}
    assert checkpoints.place_of(newest.pk) is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_checkpoint SET root = 'x'",
        "DELETE FROM ledger_checkpoint",
        "UPDATE ledger_tile SET hashes = decode(repeat('00', 96), 'hex')",
        "UPDATE ledger_tile SET hashes = substring(hashes FOR 32)",
        "DELETE FROM ledger_tile",
    ],
)
def test_the_database_refuses_to_change_the_log(events, change):
    events(3)
    checkpoints.make()

    with pytest.raises(DatabaseError, match=r"only ever"), atomic(), connection.cursor() as cursor:
        cursor.execute(change)


TAMPERINGS = {
    "an event's hash": (
        "UPDATE ledger_event SET hash = repeat('ab', 32) WHERE id = (SELECT min(id) FROM"
        " ledger_event)",
        "not those that it signed",
    ),
    "an event taken out": (
        "DELETE FROM ledger_event WHERE id = (SELECT min(id) FROM ledger_event)",
        "ends at event",
    ),
    "an event put in": (
        "INSERT INTO ledger_event (id, subject, tenant, seq, kind, from_state, to_state,"
        " principal, principal_name, via, reason, reason_digest, details, previous_hash, hash, at)"
        " SELECT -1, gen_random_uuid(), tenant, seq, kind, from_state, to_state, principal,"
        " principal_name, via, reason, reason_digest, details, previous_hash, hash, at"
        " FROM ledger_event LIMIT 1",
        "ends at event",
    ),
    "a checkpoint's root": (
        "UPDATE ledger_checkpoint SET root = repeat('ab', 32) WHERE size = 3",
        "checkpoint of 3 events was changed",
    ),
    "a checkpoint's note": (
        "UPDATE ledger_checkpoint SET note = replace(note, 'localhost', 'elsewhere')",
        "signed by no key that is trusted",
    ),
    "a checkpoint's size": (
        "UPDATE ledger_checkpoint SET size = 4 WHERE size = 3",
        "checkpoint of 4 events was changed",
    ),
    "a checkpoint's last event": (
        "UPDATE ledger_checkpoint SET upto_event = upto_event - 1 WHERE size = 3",
        "when that was event",
    ),
    "the newest checkpoint deleted": (
        "DELETE FROM ledger_checkpoint WHERE size = 5",
        "a newer checkpoint was deleted",
    ),
    "the newest event taken out": (
        "DELETE FROM ledger_event WHERE id = (SELECT max(id) FROM ledger_event)",
        "saw 5 events, and now there are 4",
    ),
    "all checkpoints deleted": ("DELETE FROM ledger_checkpoint", "a newer checkpoint was deleted"),
    "a tile": (
        "UPDATE ledger_tile SET hashes = decode(repeat('ab', 160), 'hex')",
        "tile 0/0 of the log is not that of its events",
    ),
    "a tile deleted": ("DELETE FROM ledger_tile", "tile 0/0 of the log"),
    "a tile invented": (
        "INSERT INTO ledger_tile (level, index, hashes) VALUES (3, 7, 'x')",
        "the log has 2 tiles",
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_whatever_is_done_to_the_log_is_found(name, events, forge, trusted):
    events(3)
    checkpoints.make()
    events(2)
    checkpoints.make()
    change, finding = TAMPERINGS[name]
    checkpoint_proof.verify(trusted)

    forge(change)

    with pytest.raises(Broken, match=finding):
        checkpoint_proof.verify(trusted)


def sign_again(seed: bytes, origin: str = "localhost:8000/log") -> tuple[str, str]:
    """A checkpoint over the events as they are now, by another key."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    head = TreeHead(origin, len(leaves()), merkle.root_of(leaves()))
    return str(
        signed_notes.signed(str(head), origin, key)
    ), key.public_key().public_bytes_raw().hex()


def test_checkpoints_that_another_key_signed_are_found(events, forge, trusted):
    events(3)
    checkpoints.make()
    note, public = sign_again(b"x" * 32)

    forge("UPDATE ledger_checkpoint SET note = %s, public_key = %s", note, public)

    checkpoint_proof.verify()  # a key that vouches for itself
    with pytest.raises(Broken, match="no key that is trusted"):
        checkpoint_proof.verify(trusted)


def test_a_key_of_former_times_stays_trusted(events, settings):
    former = checkpoints.own_public_keys()
    events(3)
    checkpoints.make()
    settings.AUDIT_KEY, settings.AUDIT_PUBLIC_KEYS = "22" * 32, sorted(former)
    events(1)
    checkpoints.make()

    covered = checkpoint_proof.verify(checkpoints.own_public_keys())

    assert len(covered.public_keys) == 2


def test_a_whole_log_made_anew_with_the_own_key_is_found_by_a_copy_outside(events, forge, trusted):
    """Somebody has the database and the signing key, but not the file outside."""
    events(3)
    outside = f"{checkpoints.make().note}\n"
    event = Event.objects.order_by("pk").first()
    for table in ("checkpoint", "tile"):
        forge(f"DELETE FROM ledger_{table}")
    forge("UPDATE ledger_event SET hash = repeat('cd', 32) WHERE id = %s", event.pk)
    checkpoints.make()

    checkpoint_proof.verify(trusted)
    with pytest.raises(Broken, match="checkpoint of 3 events is not the one"):
        checkpoint_proof.verify(trusted, against=[outside])


def test_a_checkpoint_that_vanished_from_the_middle_is_missed_by_the_next_one(
    events, forge, trusted
):
    for count in (3, 1, 1):
        events(count)
        checkpoints.make()
    checkpoint_proof.verify(trusted)

    forge("DELETE FROM ledger_checkpoint WHERE size = 4")

    with pytest.raises(Broken, match="of 5 events does not follow that of 3 events"):
        checkpoint_proof.verify(trusted)


def test_checkpoints_of_earlier_versions_name_none_before_them(events, forge, trusted):
    for count in (3, 1, 1):
        events(count)
        point = checkpoints.make()
        if point.size < 5:
            unchain(point, forge)
    checkpoint_proof.verify(trusted)

    unchain(Checkpoint.objects.get(size=5), forge)
    events(1)
    checkpoints.make()
    checkpoint_proof.verify(trusted)
    events(1)
    unchain(checkpoints.make(), forge)

    with pytest.raises(Broken, match="of 7 events does not follow that of 6 events"):
        checkpoint_proof.verify(trusted)


def unchain(point: Checkpoint, forge) -> None:
    head = TreeHead.parse(Note.parse(point.note).text)
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex("11" * 32))
    note = signed_notes.signed(str(replace(head, previous=None)), head.origin, key)
    forge("UPDATE ledger_checkpoint SET note = %s WHERE id = %s", str(note), point.pk)


def test_a_copy_outside_that_somebody_else_signed_says_nothing(events, trusted):
    events(3)
    checkpoints.make()

    with pytest.raises(Broken, match="signed by no trusted key"):
        checkpoint_proof.verify(trusted, against=[f"{sign_again(b'x' * 32)[0]}\n"])
    with pytest.raises(Broken, match="cannot be read"):
        checkpoint_proof.verify(trusted, against=["what is this?"])


def test_a_proof_goes_on_where_the_one_before_ended(events, forge, trusted):
    events(300)
    outside = f"{checkpoints.make().note}\n"
    so_far = checkpoint_proof.verify(trusted)
    events(5)
    checkpoints.make()
    seen = []

    covered = checkpoint_proof.verify(
        trusted, since=so_far, against=[outside], progress=seen.append
    )

    assert (covered.checkpoints, covered.size) == (2, 305)
    assert covered == checkpoint_proof.verify(trusted)
    assert seen == [305]
    forge("UPDATE ledger_event SET hash = repeat('ab', 32) WHERE id = %s", covered.upto_event)
    with pytest.raises(Broken, match="not those that it signed"):
        checkpoint_proof.verify(trusted, since=so_far)


def test_a_proof_that_goes_on_notices_that_what_it_stands_on_has_changed(events, forge, trusted):
    events(3)
    checkpoints.make()
    so_far = checkpoint_proof.verify(trusted)

    forge("UPDATE ledger_tile SET hashes = decode(repeat('ab', 96), 'hex')")

    with pytest.raises(Broken, match="not the one verified before"):
        checkpoint_proof.verify(trusted, since=so_far)


def test_a_proof_that_goes_on_notices_events_put_in_or_taken_out_below(events, forge, trusted):
    events(3)
    checkpoints.make()
    so_far = checkpoint_proof.verify(trusted)

    forge("DELETE FROM ledger_event WHERE id = (SELECT min(id) FROM ledger_event)")

    with pytest.raises(Broken, match="3 events were verified before, of which there are now 2"):
        checkpoint_proof.verify(trusted, since=so_far)


def test_events_that_are_long_under_no_checkpoint_are_found(events, forge, trusted):
    events(1)
    checkpoints.make()
    events(2)
    minutes = timedelta(minutes=5)
    checkpoint_proof.verify(trusted, patience=minutes)

    forge("UPDATE ledger_event SET at = at - interval '1 hour'")

    with pytest.raises(Broken, match=r"2 events, the first at .* are under no checkpoint"):
        checkpoint_proof.verify(trusted, patience=minutes)


def test_nothing_is_signed_that_contradicts_what_was_signed(events, forge):
    events(3)
    checkpoints.make()
    forge("UPDATE ledger_tile SET hashes = decode(repeat('ab', 96), 'hex')")
    events(1)

    with pytest.raises(Contradiction, match="not the one signed"):
        checkpoints.make()

    assert Checkpoint.objects.count() == 1


def test_nothing_is_signed_that_contradicts_what_was_published(events, forge):
    events(3)
    head = TreeHead.parse(Note.parse(checkpoints.make().note).text)
    for table in ("checkpoint", "tile"):
        forge(f"DELETE FROM ledger_{table}")
    event = Event.objects.order_by("pk").first()
    forge("UPDATE ledger_event SET hash = repeat('cd', 32) WHERE id = %s", event.pk)

    with pytest.raises(Contradiction, match="3 events was published"):
        checkpoints.make([head])

    assert not Checkpoint.objects.exists()
    assert not Tile.objects.exists()


def signed_by(seed: str, size: int, upto: int) -> Checkpoint:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    head = TreeHead("localhost:8000/log", size, bytes(32))
    return Checkpoint.objects.create(
        size=size,
        upto_event=upto,
        root=head.root.hex(),
        note=str(signed_notes.signed(str(head), head.origin, key)),
        public_key=key.public_key().public_bytes_raw().hex(),
    )


@pytest.mark.parametrize("seed", ["22" * 32, ""])
def test_a_checkpoint_that_is_not_ours_does_not_stop_the_log(events, seed, trusted):
    events(3)
    checkpoints.make()
    if seed:
        signed_by(seed, 10**12, 10**12)
    else:
        Checkpoint.objects.create(size=10**12, upto_event=10**12, root="x", note="", public_key="")
    events(2)

    point = checkpoints.make()

    assert point.root == merkle.root_of(leaves()).hex()
    assert checkpoints.latest() == point
    assert checkpoints.uncovered_since() is None
    with pytest.raises(Broken):
        checkpoint_proof.verify(trusted)


def test_nothing_is_signed_where_no_checkpoint_is_ours(events):
    events(3)
    signed_by("22" * 32, 3, 3)

    with pytest.raises(Contradiction, match="name the key that was used before"):
        checkpoints.make()


def test_an_event_with_an_id_that_was_never_given_does_not_stop_the_log_and_is_told_as_uncovered(
    events, forge
):
    events(1)
    forge("UPDATE ledger_event SET id = 9223372036854775807")
    assert checkpoints.make() is None
    events(1)

    assert checkpoints.make().size == 1
    assert checkpoints.uncovered_since() == Event.objects.latest("pk").at
    events(1)
    assert checkpoints.make().size == 2


def test_a_log_that_was_lost_is_made_again_from_the_same_events(events, forge):
    events(3)
    head = TreeHead.parse(Note.parse(checkpoints.make().note).text)
    for table in ("checkpoint", "tile"):
        forge(f"DELETE FROM ledger_{table}")

    assert checkpoints.make([head]).root == head.root.hex()


def test_an_event_that_commits_late_is_waited_for(transactional_db, events):
    """Ids are given out before commit: a checkpoint must not pass over one that is to come."""
    events(1)
    late = connection.copy()
    copy = (
        "INSERT INTO ledger_event (subject, tenant, seq, kind, from_state, to_state, principal,"
        " principal_name, via, reason, details, previous_hash, hash)"
        " SELECT subject, tenant, 0, kind, '', to_state, principal, principal_name, via, reason,"
        " details, '', '' FROM ledger_event"
    )
    try:
        with atomic(), late.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(copy)
            events(1)
        assert checkpoints.make() is None
        with late.cursor() as cursor:
            cursor.execute("COMMIT")
    finally:
        late.close()

    assert checkpoints.make().size == Event.objects.count() == 3
