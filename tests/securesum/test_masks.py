"""What a site sends says nothing about its integers.

Every look at right masks has a false alarm with probability 1e-6, and no test looks 30 times.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from fedcover import securesum
from fedcover.securesum import crypto
from fedcover.securesum.commitments import KeyAdvertisement
from fedcover.securesum.masks import pair_mask
from fedcover.securesum.state import State
from fedcover.wire import Message
from tests.securesum.driving import Federation, identity_of

FALSE_ALARM = 1e-6
LENGTH = 100_000

INPUTS = {
    "zeros": np.zeros(LENGTH, dtype=np.int64),
    "ones": np.full(LENGTH, -1, dtype=np.int64),
    "counts": np.arange(LENGTH, dtype=np.int64) % 50,
    "extremes": np.where(np.arange(LENGTH) % 2, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
}


def looks_random(words):
    """Chi-square of the values of each of the 8 bytes and of each of the 64 bits, and of both over
    time: 2 × 72 tests, so each may alarm falsely with probability 1e-6 / 144."""
    words = np.ascontiguousarray(words, dtype="<u8")
    apart = [words, words[1:] - words[:-1]]  # and neighbours are unrelated
    for part in apart:
        octets = part.view(np.uint8).reshape(-1, 8)
        tables = [np.bincount(column, minlength=256) for column in octets.T]
        bits = np.unpackbits(octets, axis=1)
        tables += [np.bincount(column, minlength=2) for column in bits.T]
        if min(stats.chisquare(table).pvalue for table in tables) < FALSE_ALARM / 144:
            return False
    return True


def masked_by_s0(x, run="november"):
    """What s0 sends of the vector x, and what it knew before."""
    sites = Federation(3, shapes={"x": x.shape}, run=run)
    for values in sites.values.values():
        values["x"] = x
    sites.to("masked")
    before = State.of_bytes(sites.states["s0"])
    sites.step()
    return sites, before, sites.heard["masked", "s0"].arrays["masked"]


@pytest.mark.parametrize("name", INPUTS)
def test_masked_integers_look_random(name):
    assert looks_random(masked_by_s0(INPUTS[name])[2])


def test_the_test_sees_what_is_not_random():
    for x in INPUTS.values():
        assert not looks_random(x.view(np.uint64))
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, LENGTH, dtype=np.uint64)
    assert looks_random(words)
    assert not looks_random(words & ~np.uint64(1))
    assert not looks_random(np.where(rng.random(LENGTH) < 0.05, np.uint64(7), words))


def test_the_same_input_twice_gives_unrelated_messages():
    x = INPUTS["counts"]
    one, two = (masked_by_s0(x, run)[2] for run in ("november", "december"))
    assert looks_random(one - two)
    assert looks_random(one ^ two)


def test_the_masks_do_not_depend_on_the_integers():
    """Under the same randomness two messages differ by the integers alone: a one-time pad."""
    sites = Federation(3, shapes={"x": (LENGTH,)})
    query = sites.to("masked")["s0"]
    site = securesum.Participant("s0", identity_of("s0"), sites.roster)
    sent = {}
    for name, x in INPUTS.items():
        reply, _ = site.answer(query, sites.states["s0"], lambda _, x=x: Message("sum", {"x": x}))
        sent[name] = reply.arrays["masked"]
    for name, x in INPUTS.items():
        assert (sent[name] - sent["zeros"] == x.view(np.uint64)).all()
        assert reply.arrays.keys() == {"masked"}
        for other in INPUTS.keys() - {name}:
            assert (sent[name] != sent[other]).any()


def test_no_part_of_other_messages_depends_on_the_integers():
    """Before the masked integers the site does not look at them, afterwards it has none."""
    sites = Federation(3)
    site = securesum.Participant("s0", identity_of("s0"), sites.roster)

    def nothing(spec):
        raise AssertionError("looked at the data")

    for stage in ("keys", "shares", "agree", "unmask"):
        query = sites.to(stage)["s0"]
        site.answer(query, sites.states["s0"], nothing)


def test_a_late_vector_stays_hidden_when_the_site_counts_as_dropped_out():
    """Double masking: with the pair masks known, the self-mask still hides the vector."""
    sites, before, masked = masked_by_s0(INPUTS["counts"])
    for other in ("s1", "s2"):
        public = before.advertised[other].mask_key
        masked = masked - pair_mask(sites.spec, "s0", other, before.mask_key, public)
    assert looks_random(masked)
    bare = masked - crypto.mask_words(before.seed, LENGTH)
    assert (bare == INPUTS["counts"].view(np.uint64)).all()


def self_masks(run, late):
    """By the lie that the self-mask is there for: the self-masks of the sites in `late`.

    Their vectors arrive after they were counted as lost, and the others open their mask keys. So
    the server takes off their pair masks, and here the vectors too, which it does not know.
    """
    sites = Federation(6, threshold=4, shapes={"x": (LENGTH,)}, run=run)
    vectors = {n: sites.answer(n, q) for n, q in sites.to("masked").items() if n in late}
    sites.run(absent={"masked": late})
    sites.check([name for name in sites.names if name not in late])
    advertised = {
        name: KeyAdvertisement.of_bytes(sites.heard["keys", name].arrays["card"].tobytes())
        for name in sites.names
    }
    holders = {k: n for k, n in enumerate(sites.names) if n not in late}
    masks = {}
    for name in late:
        mask = vectors[name].arrays["masked"] - sites.values[name]["x"].view(np.uint64)
        shares = {k: sites.heard["unmask", n].arrays[f"key:{name}"] for k, n in holders.items()}
        key = crypto.combine({k: share.tobytes() for k, share in shares.items()})
        assert crypto.public_of(key) == advertised[name].mask_key
        for other in advertised.keys() - {name}:
            mask = mask - pair_mask(sites.spec, name, other, key, advertised[other].mask_key)
        masks[run, name] = mask
    return masks


def test_the_self_mask_is_another_one_at_each_site_and_in_each_run():
    """Who knows one self-mask, as of every survivor it does, knows nothing of any other."""
    masks = self_masks("november", ["s1", "s4"]) | self_masks("december", ["s1", "s4"])
    assert len(masks) == 4
    for (_, one), (_, other) in combinations(masks.items(), 2):
        assert looks_random(one - other)
    for mask in masks.values():
        assert looks_random(mask)


def test_a_survivor_stays_hidden_when_its_self_mask_is_known():
    """And the other way round: the pair masks hide each vector, only the sum is left."""
    _, before, masked = masked_by_s0(INPUTS["counts"])
    assert looks_random(masked - crypto.mask_words(before.seed, LENGTH))


def test_each_pair_has_a_mask_of_its_own_that_cancels():
    sites = Federation(4, shapes={"x": (LENGTH,)})
    sites.to("masked")
    known = {name: State.of_bytes(sites.states[name]) for name in sites.names}
    masks = []
    for a in sites.names:
        for b in sites.names:
            if a < b:
                there, back = (
                    pair_mask(sites.spec, x, y, known[x].mask_key, known[y].advertised[y].mask_key)
                    for x, y in ((a, b), (b, a))
                )
                assert not (there + back).any()
                masks.append(there)
    public, private = known["s1"].advertised["s1"].mask_key, known["s0"].mask_key
    other = Federation(4, shapes={"x": (LENGTH,)}, run="december").spec
    masks.append(pair_mask(other, "s0", "s1", private, public))
    masks.append(pair_mask(sites.spec, "s0", "s2", private, public))  # another name, the same key
    for k, one in enumerate(masks):
        assert all(looks_random(one - other) for other in masks[:k])
