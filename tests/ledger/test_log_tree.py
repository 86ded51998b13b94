"""The Merkle tree is the one that everybody else has: RFC 6962, another's library, tiles."""

from __future__ import annotations

import hashlib

import pymerkle
import pytest
from hypothesis import given, strategies as st

from ledger.foundation.crypto import merkle
from ledger.foundation.crypto.merkle import ProofRefused

# Published with Certificate Transparency, for RFC 6962.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION_0_8 = [
    "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
    "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
]
CONSISTENCY_6_8 = [
    "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
]

MOST = 700  # two full tiles and a part of a third
MANY = [hashlib.sha256(b"%d" % number).digest() for number in range(MOST)]


def reader(leaves):
    """Hashes of perfect subtrees, by the definition."""

    def read(height, index):
        return merkle.root_of(leaves[index << height : (index + 1) << height])

    return read


@pytest.fixture(scope="module")
def another():
    """The same tree, by a library that is not ours."""
    tree = pymerkle.InmemoryTree(algorithm="sha256")
    for leaf in MANY:
        tree.append_entry(leaf)
    return tree


def test_roots_are_those_published_for_rfc_6962():
    assert [merkle.root_of(LEAVES[:size]).hex() for size in range(9)] == ROOTS


def test_proofs_are_those_published_for_rfc_6962():
    read = reader(LEAVES)

    assert [h.hex() for h in merkle.inclusion(0, 8, read)] == INCLUSION_0_8
    assert [h.hex() for h in merkle.consistency(6, 8, read)] == CONSISTENCY_6_8


@given(size=st.integers(0, MOST))
def test_another_library_sees_the_same_roots(size, another):
    assert merkle.root_of(MANY[:size]) == another.get_state(size)


@given(size=st.integers(1, MOST), data=st.data())
def test_another_library_has_the_same_inclusion_proofs(size, data, another):
    index = data.draw(st.integers(0, size - 1))
    leaf = merkle.leaf_hash(MANY[index])

    ours = merkle.inclusion(index, size, reader(MANY))

    theirs = another.prove_inclusion(index + 1, size)
    assert sorted([*ours, leaf]) == sorted(theirs.path)
    pymerkle.verify_inclusion(leaf, another.get_state(size), theirs)
    assert merkle.implied_root(leaf, index, size, ours) == another.get_state(size)


def subproof(old, leaves, is_whole):
    """SUBPROOF of RFC 6962, section 2.1.2, word for word."""
    if old == len(leaves):
        return [] if is_whole else [merkle.root_of(leaves)]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    left, right = leaves[:half], leaves[half:]
    if old <= half:
        return [*subproof(old, left, is_whole), merkle.root_of(right)]
    return [*subproof(old - half, right, False), merkle.root_of(left)]


@given(new=st.integers(1, MOST), data=st.data())
def test_consistency_proofs_are_those_of_the_definition_and_fit_anothers_roots(new, data, another):
    old = data.draw(st.integers(1, new))

    path = merkle.consistency(old, new, reader(MANY))

    assert path == subproof(old, MANY[:new], True)
    assert merkle.is_consistent(old, new, another.get_state(old), another.get_state(new), path)


@given(new=st.integers(2, MOST), data=st.data())
def test_no_other_root_no_other_size_and_no_changed_path_is_consistent(new, data):
    old = data.draw(st.integers(1, new - 1))
    path = merkle.consistency(old, new, reader(MANY))
    old_root, new_root = merkle.root_of(MANY[:old]), merkle.root_of(MANY[:new])
    forged = hashlib.sha256(b"forged").digest()

    assert not merkle.is_consistent(old, new, forged, new_root, path)
    assert not merkle.is_consistent(old, new, old_root, forged, path)
    assert not merkle.is_consistent(old, new, old_root, new_root, [*path, forged])
    assert not merkle.is_consistent(old, new, old_root, new_root, path[:-1])
    spot = data.draw(st.integers(0, len(path) - 1))
    changed = [*path[:spot], forged, *path[spot + 1 :]]
    assert not merkle.is_consistent(old, new, old_root, new_root, changed)


@given(size=st.integers(2, MOST), data=st.data())
def test_a_leaf_is_proved_at_its_own_place_only(size, data):
    index = data.draw(st.integers(0, size - 1))
    elsewhere = data.draw(st.integers(0, size - 1).filter(lambda place: place != index))
    leaf, path = merkle.leaf_hash(MANY[index]), merkle.inclusion(index, size, reader(MANY))

    try:
        implied = merkle.implied_root(leaf, elsewhere, size, path)
    except ProofRefused:
        return
    assert implied != merkle.root_of(MANY[:size])


@pytest.mark.parametrize(("index", "size"), [(0, 0), (5, 5), (-1, 3)])
def test_there_is_no_proof_of_a_leaf_that_is_not_there(index, size):
    with pytest.raises(ProofRefused):
        merkle.inclusion(index, size, reader(MANY))
    with pytest.raises(ProofRefused):
        merkle.implied_root(MANY[0], index, size, [])


def test_a_path_must_be_as_long_as_the_tree_is_high():
    path = merkle.inclusion(3, 8, reader(MANY))
    leaf = merkle.leaf_hash(MANY[3])

    with pytest.raises(ProofRefused, match="longer"):
        merkle.implied_root(leaf, 3, 8, [*path, path[0]])
    with pytest.raises(ProofRefused, match="shorter"):
        merkle.implied_root(leaf, 3, 8, path[:-1])


def test_seventy_thousand_leaves_have_the_tiles_of_the_specification():
    """The example of C2SP tlog-tiles."""
    frontier = merkle.Frontier()
    filled = [tile for number in range(70_000) for tile in frontier.append(b"%d" % number)]

    assert [sum(level == at for at, _, _ in filled) for level in range(3)] == [273, 1, 0]
    assert merkle.open_widths(70_000) == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert [
        (level, index, len(hashes) // 32) for level, index, hashes in frontier.open_tiles()
    ] == merkle.open_widths(70_000)
    assert merkle.open_widths(256) == [(1, 0, 1)]
