"""Certificates over 4800 random federations with exactly known coverage, and on real outputs.

A valid certificate fails one of these tests with probability below 10⁻⁶ per family. Mean sizes on
real outputs have standard errors below 2 % of the ratio.
"""

import numpy as np
import pytest

import fedcover as fc
from fedcover.certificate import certified_rank, certify_counted_mix, certify_known_mix
from tests.certificate.worlds import ALPHA, BETA, FAMILIES, most_violations, world

from .federations import Cifar10
from .test_cifar10 import OUTPUTS

pytestmark = pytest.mark.statistical

N = 480
ASK = {"alpha": ALPHA, "confidence": 1 - BETA}


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_violations(family, private):
    rng = np.random.default_rng([5, FAMILIES.index(family), private])
    found = {"known": 0, "counted": 0, "counted, own elsewhere": 0}
    for _ in range(N):
        drawn = world(family, rng, private)
        release, counts = drawn.draw(rng)
        known = certify_known_mix(**release, mix=drawn.pi, **ASK)
        inside = certify_counted_mix(**release, counts=counts, **ASK)
        release, counts = drawn.draw(rng, own=False)
        outside = certify_counted_mix(**release, counts=counts, **ASK)
        for name, cert in zip(found, (known, inside, outside), strict=True):
            found[name] += drawn.violated(cert.edges[0])
    print(f"\n{family}, {'private' if private else 'exact'}: {found} of {N}")
    assert max(found.values()) <= most_violations(N)


def test_sizes_on_real_outputs():
    """Mix counted from 50 labels against the site alone; known mix against the oracle."""
    if not OUTPUTS.exists():
        pytest.skip(f"{OUTPUTS.name} is not in the folder FEDCOVER_DATA")
    federation = Cifar10(OUTPUTS, fc.scores.APS())
    edges = np.unique(np.r_[0, np.linspace(0.0025, 1, 1000)])[::-1]
    sizes = []
    for r, draw in enumerate(federation.draws(200)):
        half = np.random.default_rng([10, r]).permutation(len(federation.labels))[5000:]
        every = federation.score.of_all(federation.probs[half], r)
        table = sum(above(s.scores, s.labels, edges) for s in draw.sites)
        totals = sum(s.calibration_counts for s in draw.sites)
        site = next(s for s in draw.sites if s.name == federation.target)
        own = site.calibration_counts
        counted = certify_counted_mix(table, 0, totals, counts=own, **ASK)
        known = certify_known_mix(table, 0, totals, mix=federation.priors[3], **ASK)
        rank = certified_rank(len(site), ALPHA, 1 - BETA)[0]
        order = np.argsort(draw.scores)
        reached = np.searchsorted(np.cumsum(draw.weights[order]), 1 - ALPHA)
        found = (edges[counted.edges[0]], edges[known.edges[0]],
                 np.sort(site.scores)[rank], draw.scores[order][reached])  # fmt: skip
        sizes.append([draw.weights @ (every <= q).sum(axis=1) for q in found])
    counted, known, alone, oracle = np.mean(sizes, axis=0)
    print(f"\nmean sizes: {counted=:.3f} {known=:.3f} {alone=:.3f} {oracle=:.3f}")
    assert counted <= 0.82 * alone
    assert known <= 1.1 * oracle


def above(scores, labels, edges):
    of_label = [np.sort(scores[labels == y]) for y in range(10)]
    return np.stack([len(v) - np.searchsorted(v, edges, side="right") for v in of_label], axis=1)
