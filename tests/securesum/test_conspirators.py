"""A lying server and sites that conspire with it: what a threshold is good for, and where it ends.

The server has all that its conspirators have: their shares, and their signatures under anything.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space

from fedcover.errors import FedcoverError
from fedcover.identity import sign
from fedcover.securesum import SumSpec, crypto
from fedcover.securesum.commitments import view_text
from fedcover.securesum.crypto import SECRET
from fedcover.securesum.masks import pair_mask, self_mask
from fedcover.securesum.spec import names_to_array, stage_message, to_array
from fedcover.securesum.state import State
from tests.securesum.driving import Federation, identity_of

MOST = 9


def attacked(sites, conspirators):
    """The vector of s0, if the server opens it by two stories of who has survived; else None.

    Half of the sites that do not conspire are told that s0 is there, the other half that it is not.
    """
    spec, victim = sites.spec, "s0"
    inside = sites.names[len(sites.names) - conspirators :]
    honest = [name for name in sites.names if name not in inside]
    half = len(honest) // 2
    stories = [honest[: len(honest) - half], honest[len(honest) - half :]]
    sites.to("masked")
    masked = {name: sites.answer(name, query) for name, query in sites.queries.items()}
    advertised = State.of_bytes(sites.states[victim]).advertised
    terms = {"terms": to_array(spec.digest)}
    known = [State.of_bytes(sites.states[name]) for name in inside]
    seeds = {
        spec.sites.index(n): s.held[victim][:SECRET] for n, s in zip(inside, known, strict=True)
    }
    keys = {
        spec.sites.index(n): s.held[victim][SECRET:] for n, s in zip(inside, known, strict=True)
    }
    for told in stories:
        listed = spec.in_order({*told, *inside})
        agree = stage_message("agree", {**terms, "survivors": names_to_array(listed)})
        signatures = {}
        for name in told:
            try:
                signatures[name] = sites.answer(name, agree).arrays["signature"]
            except FedcoverError:
                continue
            seen = State.of_bytes(sites.states[name])
        if signatures:
            view = view_text(spec, seen.advertised, spec.in_order(seen.held), seen.survivors)
            signatures |= {name: to_array(sign(identity_of(name), view)) for name in inside}
        table = {f"signature:{name}": one for name, one in signatures.items()}
        unmask = stage_message("unmask", {**terms, **table})
        for name in told:
            try:
                opened = sites.answer(name, unmask).arrays
            except FedcoverError:
                continue
            place = spec.sites.index(name)
            for kind, shares in (("seed", seeds), ("key", keys)):
                if f"{kind}:{victim}" in opened:
                    shares[place] = opened[f"{kind}:{victim}"].tobytes()
    if min(len(seeds), len(keys)) < spec.threshold:
        return None
    some = [dict(sorted(shares.items())[: spec.threshold]) for shares in (seeds, keys)]
    seed, key = map(crypto.combine, some)
    bare = masked[victim].arrays["masked"] - self_mask(spec, seed)
    for other in set(sites.names) - {victim}:
        bare -= pair_mask(spec, victim, other, key, advertised[other].mask_key)
    return bare.astype(np.int64)


@pytest.mark.parametrize(("count", "threshold"), [(4, 3), (5, 3), (5, 4), (6, 4), (6, 5), (7, 5)])
def test_a_threshold_holds_against_as_many_as_it_says_and_falls_to_one_more(count, threshold):
    most = 2 * threshold - count - 1
    for against in range(most + 1):
        sites = Federation(count, threshold, run=f"against {against}", conspirators=against)
        assert attacked(sites, against) is None
    with pytest.raises(FedcoverError, match="may conspire with the server"):
        Federation(count, threshold, conspirators=most + 1)
    if most + 1 < count - 1:
        sites = Federation(count, threshold, run="one more", conspirators=most)
        assert (attacked(sites, most + 1) == sites.values["s0"]["x"]).all()


def test_three_of_five_are_not_asked_when_one_may_conspire():
    """What opened a site's vector: five sites, threshold three, one of them with the server."""
    with pytest.raises(FedcoverError, match="threshold is 3 for 5 sites of which 1"):
        Federation(5, threshold=3)
    sites = Federation(5, threshold=3, conspirators=0)
    assert (attacked(sites, 1) == sites.values["s0"]["x"]).all()


def test_a_site_refuses_the_invitation_itself():
    """Whoever invites: a server that is not this program checks nothing."""
    sites = Federation(5, threshold=4)
    invitation = sites.queries["s0"]
    for numbers in ({"threshold": 3}, {"conspirators": 3}, {"conspirators": -1},
                    {"conspirators": 5}, {"conspirators": 1.0}):  # fmt: skip
        lie = stage_message("keys", invitation.arrays, **{**_said(invitation), **numbers})
        with pytest.raises(FedcoverError):
            sites.answer("s0", lie)
    said = {k: v for k, v in _said(invitation).items() if k != "conspirators"}
    with pytest.raises(FedcoverError, match="conspirators"):
        sites.answer("s0", stage_message("keys", invitation.arrays, **said))
    sites.answer("s0", invitation)


def _said(message):
    return {key: value for key, value in message.numbers.items() if key != "version"}


def test_signatures_of_another_run_or_number_of_conspirators_are_not_taken():
    """A run that trusts everybody lends no signature to one that does not."""
    signed = {}
    for run, against in (("october", 1), ("october again", 0)):
        earlier = Federation(5, threshold=4, run=run, conspirators=against)
        earlier.to("unmask")
        signed[run] = {n: earlier.heard["agree", n].arrays["signature"] for n in earlier.names}
    sites = Federation(5, threshold=4)
    query = sites.to("unmask")["s0"]
    for old in signed.values():
        for name, one in old.items():
            table = {**query.arrays, f"signature:{name}": one}
            with pytest.raises(FedcoverError, match=f"'{name}' did not sign"):
                sites.answer("s0", stage_message("unmask", table))
    sites.answer("s0", query)


def accepted(most=MOST):
    """Every n, c and t that a site takes part with."""
    for n in range(3, most + 1):
        names = tuple(f"s{k}" for k in range(n))
        for c, t in product(range(n + 1), range(n + 1)):
            try:
                SumSpec("r", names, {"x": (1,)}, threshold=t, conspirators=c)
            except FedcoverError:
                continue
            yield n, c, t


def test_no_two_lists_open_both_secrets_of_a_site():
    """Over all ways in which the others sign the first list, the second or none; n up to 9."""
    cases = list(accepted())
    assert {(n, c) for n, c, _ in cases} == {(n, c) for n in range(3, 10) for c in range(n)}
    assert (5, 1, 3) not in cases
    for n, c, t in cases:
        for signs in product((0, 1, 2), repeat=n - c):
            first, second = (signs.count(one) + c for one in (1, 2))
            # Whoever opens has t signatures; conspirators give both kinds, with the others or not.
            seeds, keys = (k if k >= t else c for k in (first, second))
            assert min(seeds, keys) < t


def test_every_other_threshold_lets_them():
    """It is not stricter than it must be: for what is refused there are two such lists."""
    for n in range(3, MOST + 1):
        known = {(c, t) for m, c, t in accepted() if m == n}
        for c, t in product(range(n - 1), range(1, n + 1)):
            halves = ((n - c) // 2, (n - c) - (n - c) // 2)
            assert ((c, t) in known) == (min(halves) + c < t)


def learned(n, c, t, stories):
    """Combinations of the vectors of those that do not conspire that the server can work out.

    `stories` holds, of each of the first n - c sites, the dealers and the survivors it was told.
    The masks that the server does not know are unknowns of a system of linear equations.
    """
    honest = range(n - c)
    openers = [
        u for u in honest
        if sum(stories[v] == stories[u] for v in honest if v in stories[u][1])
        + sum(v in stories[u][1] for v in range(n - c, n)) >= t
    ]  # fmt: skip
    seeds = {u for u in honest if c + sum(u in stories[v][1] for v in openers) >= t}
    lost = {u for u in honest if c + sum(u in stories[v][0] - stories[v][1] for v in openers) >= t}
    pairs = [(u, v) for u, v in combinations(honest, 2) if not {u, v} & lost]
    masks = np.zeros((n - c, n - c + len(pairs)))
    for u in honest:
        masks[u, u] = u not in seeds
        for k, (one, two) in enumerate(pairs):
            if u == one and two in stories[u][0]:
                masks[u, n - c + k] = 1
            if u == two and one in stories[u][0]:
                masks[u, n - c + k] = -1
    return null_space(masks.T).T, openers


def check(n, c, t, stories):
    """One sum at most is learned, over all those of t sites or more that do not conspire."""
    space, openers = learned(n, c, t, stories)
    assert len(space) <= 1
    for combination in space:
        lists = {stories[u][1] for u in openers}
        assert len(lists) == 1
        inside = np.array([u in min(lists) for u in range(n - c)])
        assert inside.sum() >= t - c
        assert np.allclose(combination / combination[inside][0], inside)
    return len(space)


def told(n, t, u):
    """All that site u can be told and agree to: dealers and survivors."""
    sets = [frozenset(s) for k in range(t, n + 1) for s in combinations(range(n), k) if u in s]
    return [(dealers, left) for dealers in sets for left in sets if left <= dealers]


@pytest.mark.parametrize(("n", "c", "t"), [(4, 0, 3), (4, 1, 3), (5, 1, 4), (5, 2, 4)])
def test_whatever_sites_are_told_one_sum_is_learned(n, c, t):
    all_stories = product(*(told(n, t, u) for u in range(n - c)))
    assert sum(check(n, c, t, stories) for stories in all_stories) > 50


@given(st.data())
@settings(max_examples=200)
def test_whatever_more_sites_are_told_one_sum_is_learned(data):
    """Most sites are told one of two stories, or nothing opens."""
    n, c, t = data.draw(st.sampled_from([(5, 0, 3), (6, 1, 4), (7, 0, 4), (7, 2, 5), (8, 1, 5)]))
    sets = st.frozensets(st.sampled_from(range(n)), min_size=t)
    two = [data.draw(sets, "dealers") for _ in range(2)]
    two = [(all_, data.draw(st.sampled_from(_parts(all_, t)), "left")) for all_ in two]
    stories = []
    for u in range(n - c):
        usual = [story for story in two if u in story[1]]
        odd = data.draw(st.integers(0, 3), "odd") == 0 or not usual
        stories.append(data.draw(st.sampled_from(told(n, t, u) if odd else usual)))
    check(n, c, t, stories)


def _parts(dealers, t):
    return [
        frozenset(s) for k in range(t, len(dealers) + 1) for s in combinations(sorted(dealers), k)
    ]


def test_the_model_knows_the_attack():
    """Five sites, threshold three, the last conspires: two stories give the bare vector of s0."""
    everybody = frozenset(range(5))
    here, gone = frozenset({0, 1, 4}), frozenset({2, 3, 4})
    stories = [(everybody, here if u in here else gone) for u in range(4)]
    space, _ = learned(5, 1, 3, stories)
    assert np.linalg.matrix_rank(np.vstack([space, np.eye(4)[:1]])) == len(space)
    with pytest.raises(AssertionError):
        check(5, 1, 3, stories)
