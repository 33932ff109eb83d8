"""What the page of the threat model says of Flower's own secure sums, tried on the Flower here."""

from __future__ import annotations

import os
from importlib import import_module

import numpy as np
import pytest
from flwr.common.secure_aggregation import secaggplus_utils
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.supercore.primitives.asymmetric import generate_key_pairs

# The package has a function of the same name.
site = import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")


def seeds_of(monkeypatch, secrets):
    """The seeds of the generator of masks, for these secrets."""
    seen = []
    usual = np.random.RandomState

    def remembering(seed):
        seen.append(seed)
        return usual(seed)

    monkeypatch.setattr(secaggplus_utils.np.random, "RandomState", remembering)
    for secret in secrets:
        secaggplus_utils.pseudo_rand_gen(secret, 1 << 32, [(1,)])
    return np.array(seen, dtype=np.uint64)


def test_masks_of_pairs_have_28_bits_and_self_masks_32(monkeypatch):
    (mine, _), (_, theirs) = generate_key_pairs(), generate_key_pairs()
    shared = [generate_shared_key(mine, theirs)]
    shared += [generate_shared_key(generate_key_pairs()[0], theirs) for _ in range(200)]
    # By chance a bit is 0 in all of 200 seeds with 2⁻²⁰⁰, and in none that can be 1 with 32·2⁻²⁰⁰.
    assert bits(seeds_of(monkeypatch, shared)) == 0x7F7F7F7F
    own = [os.urandom(32) for _ in range(200)]
    assert bits(seeds_of(monkeypatch, own)) == 0xFFFFFFFF


def bits(seeds):
    return int(np.bitwise_or.reduce(seeds))


def test_a_site_gives_both_secrets_of_another_and_asks_for_no_signature():
    state = site.SecAggPlusState(threshold=2)
    state.rd_seed_share_dict = {1: b"seed of 1", 2: b"seed of 2"}
    state.sk1_share_dict = {1: b"key of 1", 2: b"key of 2"}
    asked = {Key.ACTIVE_NODE_ID_LIST: [1, 2], Key.DEAD_NODE_ID_LIST: [2]}
    given = site._unmask(state, asked)
    assert given[Key.SHARE_LIST] == [b"seed of 1", b"seed of 2", b"key of 2"]


@pytest.mark.parametrize("threshold", [2, 0.4])
def test_a_threshold_below_a_half_is_taken(threshold):
    SecAggPlusWorkflow(num_shares=5, reconstruction_threshold=threshold)
