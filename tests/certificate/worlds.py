"""Random federations whose coverage is known exactly, and counts drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

ALPHA, BETA = 0.1, 0.05
FALSE_ALARM = 1e-6
"""How often a test of a valid certificate fails, at most."""

FAMILIES = ("alike", "one bad label", "powers", "just above", "nearly absent")


def most_violations(n):
    return int(binom.ppf(1 - FALSE_ALARM, n, BETA))


@dataclass
class World:
    """Miss rates g (E, C) with row 0 at score 1, the site's mix, others' records, own records."""

    g: np.ndarray
    pi: np.ndarray
    n: np.ndarray
    m: int
    tau: float = 0.0
    total_sd: float = 0.0

    def violated(self, edge):
        return bool(self.g[edge] @ self.pi > ALPHA)

    def draw(self, rng, own=True):
        """One release: keyword arguments for a certificate, and the own label counts."""
        m_y = rng.multinomial(self.m, self.pi)
        n = self.n + own * m_y
        steps = np.diff(self.g, axis=0, append=1.0)
        steps[0] += self.g[0]
        misses = np.zeros(self.g.shape)
        misses[1:] = np.cumsum(rng.multinomial(n, np.clip(steps.T, 0, 1)).T, axis=0)[:-1]
        shared, single = rng.normal(size=(2, *misses.shape))
        noise = self.tau * (shared[:1] + single) / np.sqrt(2)  # neighbours share half of it
        totals = n + self.total_sd * rng.normal(size=len(n))
        release = {
            "misses": misses + noise,
            "variance": self.tau**2,
            "totals": totals,
            "total_sd": self.total_sd,
        }
        return release, m_y


def world(family, rng, private):
    c = int(rng.choice([2, 3, 10, 100]))
    pi = rng.dirichlet(np.full(c, rng.choice([0.3, 2.0])))
    n = rng.multinomial(int(rng.choice([200, 1000, 5000])), rng.dirichlet(np.full(c, 3.0)))
    m = int(rng.choice([3, 5, 10, 50, 200]))
    at = np.linspace(0, 0.25, 26)[:, None]
    if family == "alike":
        g = at + np.zeros(c)
    elif family == "one bad label":
        g = at / 2 + np.zeros(c)
        g[:, int(np.argmax(pi))] = 3 * at[:, 0]
    elif family == "powers":
        g = at ** rng.uniform(0.4, 3, c)
    elif family == "just above":  # all in one atom: the first test decides
        g = np.where(at > 0, ALPHA * 1.0001, 0.0) + np.zeros(c)
    else:
        n = np.where(rng.random(c) < 0.5, rng.integers(0, 4, c), n)
        g = np.minimum(at + np.where(n < 4, 8 * at, 0.0), 1.0)
    tau, sd = (float(rng.choice([3.0, 10.0])), float(rng.choice([3.0, 8.0]))) if private else (0, 0)
    return World(g, pi, n, m, tau, sd)
