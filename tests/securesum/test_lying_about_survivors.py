"""A lying server, second half: shares and survivors. Every site refuses and reveals nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fedcover import securesum
from fedcover.errors import FedcoverError
from fedcover.identity import is_signed, sign
from fedcover.securesum import crypto
from fedcover.securesum.commitments import sealing_purpose, view_text
from fedcover.securesum.spec import names_to_array, stage_message, to_array
from fedcover.securesum.state import State
from tests.securesum.driving import (
    Federation,
    changed,
    flipped,
    fresh_keys,
    identity_of,
    refuses,
)


def test_tampered_and_misdirected_shares_are_refused():
    sites = Federation(4, threshold=3)
    queries = sites.to("masked")
    query = queries["s0"]
    for sealed in (
        flipped(query.arrays["sealed:s1"]),  # changed on the way
        query.arrays["sealed:s2"],  # of another sender
        queries["s2"].arrays["sealed:s1"],  # for another receiver
        queries["s1"].arrays["sealed:s0"],  # this site's own, sent back
    ):
        with pytest.raises(FedcoverError, match="shares of 's1'"):
            sites.answer("s0", changed(query, {"sealed:s1": sealed}))
    lie = {"digests:s1": flipped(query.arrays["digests:s1"])}
    refuses(sites, "s0", changed(query, lie), "shares of 's1'")


def test_sealed_shares_are_bound_to_the_run():
    """The same keys in a run of another name open nothing."""
    sites = Federation()
    other = securesum.SumSpec("other", sites.names, {"x": (5,)})
    key, text = crypto.new_secret(), bytes(64)
    sealed = crypto.seal(key, text, sealing_purpose(sites.spec, "s0", "s1"))
    assert crypto.unseal(key, sealed, sealing_purpose(sites.spec, "s0", "s1")) == text
    for purpose in (
        sealing_purpose(other, "s0", "s1"),
        sealing_purpose(sites.spec, "s1", "s0"),
        sealing_purpose(sites.spec, "s0", "s2"),
    ):
        assert crypto.unseal(key, sealed, purpose) is None


def test_shares_of_the_wrong_sites_are_refused():
    sites = Federation(4, threshold=3)
    query = sites.to("masked", absent={"shares": ["s3"]})["s0"]
    sealed, digests = query.arrays["sealed:s1"], query.arrays["digests:s1"]
    for more, match in (
        ({"sealed:eve": sealed, "digests:eve": digests}, "have dealt none"),
        ({"sealed:s0": sealed, "digests:s0": digests}, "have dealt none"),
        ({"sealed:s1": None}, "have dealt none"),
        ({"sealed:s1": sealed[:-1]}, "'sealed:s1' is missing"),
        ({"sealed:s1": sealed.astype(np.int64)}, "'sealed:s1' is missing"),
    ):
        with pytest.raises(FedcoverError, match=match):
            sites.answer("s0", changed(query, more))
    few = {"sealed:s1": None, "digests:s1": None}
    refuses(sites, "s0", changed(query, few), "2 sites")


def survivors(query, *names):
    return changed(query, {"survivors": names_to_array(names)})


def test_false_lists_of_survivors_are_refused():
    sites = Federation(5, threshold=3, conspirators=0)
    query = sites.to("agree", absent={"keys": ["s4"], "masked": ["s3"]})["s0"]
    for names, match in (
        (("s0", "s1"), "2 survivors"),
        (("s1", "s2", "s3"), "without 's0'"),
        (("s0", "s1", "s4"), "dealt no shares"),
        (("s0", "s1", "eve"), "dealt no shares"),
        (("s0", "s1", "s1"), "or twice"),
    ):
        with pytest.raises(FedcoverError, match=match):
            sites.answer("s0", survivors(query, *names))
    refuses(sites, "s0", survivors(query, ""), "dealt no shares")


def test_a_site_agrees_to_one_list_only():
    sites = Federation(4, threshold=3)
    query = sites.to("agree")["s0"]
    sites.answer("s0", query)
    with pytest.raises(FedcoverError, match="stage 'agree'"):
        sites.answer("s0", survivors(query, "s0", "s1", "s2"))


def test_a_site_opens_one_kind_of_share_of_each_site_and_once():
    sites = Federation(5, threshold=3, conspirators=0)
    queries = sites.to("unmask", absent={"masked": ["s3"]})
    for name, query in queries.items():
        reply = sites.answer(name, query)
        assert set(reply.arrays) == {"seed:s0", "seed:s1", "seed:s2", "seed:s4", "key:s3"}
        with pytest.raises(FedcoverError, match="stage 'unmask'"):
            sites.answer(name, changed(query, {"signature:s1": None}))


def test_a_site_opens_nothing_unless_enough_others_were_told_the_same():
    sites = Federation(5, threshold=3, conspirators=0)
    query = sites.to("unmask", absent={"agree": ["s4"]})["s0"]
    text = view_text(
        sites.spec,
        {name: fresh_keys(sites.spec, name) for name in sites.names},
        sites.names,
        sites.names,
    )
    for more, match in (
        ({"signature:s1": None, "signature:s2": None}, "2 sites that agree"),
        ({f"signature:s{k}": None for k in range(5)}, "0 sites that agree"),
        ({"signature:s1": flipped(query.arrays["signature:s1"])}, "'s1' did not sign"),
        ({"signature:s1": query.arrays["signature:s2"]}, "'s1' did not sign"),
        ({"signature:s1": to_array(sign(identity_of("s1"), text))}, "'s1' did not sign"),
        ({"signature:eve": query.arrays["signature:s1"]}, "'eve' did not sign"),
    ):
        with pytest.raises(FedcoverError, match=match):
            sites.answer("s0", changed(query, more))
    sites.answer("s0", query)


def test_only_survivors_sign_for_survivors():
    sites = Federation(5, threshold=3, conspirators=0)
    query = sites.to("unmask", absent={"masked": ["s4"]})["s0"]
    told = State.of_bytes(sites.states["s0"])
    view = view_text(sites.spec, told.advertised, sites.names, told.survivors)
    assert is_signed(sites.roster, "s1", query.arrays["signature:s1"].tobytes(), view)
    more = {"signature:s4": to_array(sign(identity_of("s4"), view))}
    refuses(sites, "s0", changed(query, more), "'s4' did not sign")


@pytest.mark.parametrize(("count", "threshold"), [(4, 3), (5, 3), (6, 4)])
def test_different_lists_for_different_sites_cannot_unmask(count, threshold):
    """A server that tells stories opens one list at most: `test_conspirators` has who helps it.

    Without the signatures it could collect a self-mask from some and a key from others, and so
    open the sum of fewer sites than the threshold.
    """
    sites = Federation(count, threshold, conspirators=2 * threshold - count - 1)
    queries = sites.to("agree")
    drop = {name: sites.names[(k + 1) % count] for k, name in enumerate(sites.names)}
    told = {n: tuple(x for x in sites.names if x != drop[n]) for n in sites.names}
    signed = {n: sites.answer(n, survivors(queries[n], *told[n])) for n in sites.names}
    for name in sites.names:
        for size in range(count + 1):
            for some in combinations(told[name], size):
                table = {f"signature:{n}": signed[n].arrays["signature"] for n in some}
                query = stage_message("unmask", {"terms": queries[name].arrays["terms"], **table})
                with pytest.raises(FedcoverError):
                    sites.answer(name, query)


def test_of_two_lists_only_one_is_ever_opened():
    sites = Federation(5, threshold=3, conspirators=0)
    queries = sites.to("agree")
    lists = dict.fromkeys(("s0", "s1", "s2"), sites.names[:4])
    lists |= dict.fromkeys(("s3", "s4"), ("s0", "s3", "s4"))
    signed = {n: sites.answer(n, survivors(queries[n], *names)) for n, names in lists.items()}
    kinds = {name: set() for name in sites.names}
    for name, own in lists.items():
        alike = [n for n in own if lists[n] == own]
        table = {f"signature:{n}": signed[n].arrays["signature"] for n in alike}
        query = stage_message("unmask", {"terms": queries[name].arrays["terms"], **table})
        if len(alike) < 3:
            with pytest.raises(FedcoverError, match="2 sites that agree"):
                sites.answer(name, query)
            continue
        for key in sites.answer(name, query).arrays:
            kind, _, dealer = key.partition(":")
            kinds[dealer].add(kind)
    assert kinds == {n: {"seed"} for n in sites.names[:4]} | {"s4": {"key"}}


def test_sites_with_different_views_of_the_dealers_do_not_unmask_together():
    """A site that was told of fewer dealers signs another view, though survivors are the same."""
    sites = Federation(4, threshold=3)
    query = sites.to("masked")["s0"]
    less = changed(query, {"sealed:s3": None, "digests:s3": None})
    sites.answer("s0", less)
    for name in ("s1", "s2", "s3"):
        sites.answer(name, sites.queries[name])
    listed = {"survivors": names_to_array(("s0", "s1", "s2"))}
    ask = stage_message("agree", {"terms": query.arrays["terms"], **listed})
    signed = {n: sites.answer(n, ask).arrays["signature"] for n in ("s0", "s1", "s2")}
    table = {f"signature:{n}": s for n, s in signed.items()}
    unmask = stage_message("unmask", {"terms": query.arrays["terms"], **table})
    for name in signed:
        with pytest.raises(FedcoverError, match="did not sign"):
            sites.answer(name, unmask)
