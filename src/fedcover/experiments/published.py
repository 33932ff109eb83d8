"""Algorithm 1 as published, and the ε that its noise really has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedcover.labelshift.ratios import likelihood_ratio, oracle_ratio
from fedcover.privacy import accounting
from fedcover.privacy.views import AlgorithmOne, imagenet_mixture
from fedcover.site import Site

Float64 = NDArray[np.float64]

ROUNDS, LOCAL_STEPS = 200, 20
"""T and K of the paper's experiments."""

DELTA = 1e-5


def expected_mixture(priors: Float64, sizes: Sequence[int], target: int) -> tuple[float, ...]:
    """λ^i (eq. 14) of a federation with these label distributions, on average."""
    totals = np.asarray(sizes) * (priors @ oracle_ratio(priors, sizes, target))
    return tuple((totals / totals.sum()).tolist())


def true_epsilons(noise: float, mixture: tuple[float, ...], labels: int) -> dict[str, float | None]:
    """ε of a whole site's data at δ = 10⁻⁵ for a noise σ_g, by what is seen; None: nothing claimed.

    Parameters
    ----------
    noise
        σ_g.
    mixture
        λ^i of the federation.
    labels
        |Y|: the published algorithm runs once for each.
    """
    one = AlgorithmOne(noise, mixture, ROUNDS, LOCAL_STEPS)
    every = AlgorithmOne(noise, mixture, ROUNDS, LOCAL_STEPS, runs=labels)
    paper = AlgorithmOne(noise, imagenet_mixture(), ROUNDS, LOCAL_STEPS)
    return {
        "server": accounting.epsilon(one.server_events(), DELTA),
        "secure sum": accounting.epsilon(one.secure_sum_events(), DELTA),
        "secure sum, all labels": accounting.epsilon(every.secure_sum_events(), DELTA),
        "secure sum, ImageNet": accounting.epsilon(paper.secure_sum_events(), DELTA),
        "claimed, ImageNet": paper.claimed_epsilon(DELTA),
    }


def record_noise(sites: Sequence[Site], target: int, epsilon: float) -> float:
    """σ_g at which Algorithm 1 hides the score of one record, its label being public.

    Replacing a score moves Σ_i λ^i ∇S^i by at most p = max_y ŵ_y / (W + ŵ_y'), under the noise
    σ_g ‖λ‖₂ of a secure sum; T·K steps of |Y| runs compose. Replacing the label, too, would move
    the counts and weight totals that the algorithm sends exactly: for that unit no noise on the
    gradients gives a finite ε.

    Parameters
    ----------
    sites, target
        The federation, of which all records are used, and the number of the target in it.
    epsilon
        ε at δ = 10⁻⁵, secure-sum view.
    """
    counts = np.stack([s.label_counts for s in sites])
    sizes = np.array([len(s) for s in sites])
    ratios = likelihood_ratio(counts, target)
    totals = np.stack([s.calibration_counts for s in sites]) @ ratios
    own = totals[:, None] + (sizes / sizes.sum())[:, None] * ratios
    mixture = own / own.sum(axis=0)
    reach = ratios.max() / own.sum(axis=0) / np.linalg.norm(mixture, axis=0)
    steps = ROUNDS * LOCAL_STEPS * len(ratios)
    return accounting.noise_multiplier(epsilon, DELTA, steps) * float(reach.max())
