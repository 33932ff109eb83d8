"""Label shift: from label counts to the weights that make other sites' records count as one's own.

weights.py    likelihood ratios ŵ_y from counts (eq. 7 and 10), mixtures, effective size, and the
              exact weights of Theorem 2.1 in closed form
estimate.py   a target's label distribution from unlabelled predictions, by EM or by the confusion
              matrix, without an error; groups of similar sites
mix.py        the same by the better founded of the two, with the error of the estimate
em.py         the first of these two, with its doubts: the likeliest mix
bbse.py       the second with its errors: from predictions and a measured confusion matrix
"""

from fedcover.labelshift.estimate import confusion, from_unlabelled, group_sites
from fedcover.labelshift.mix import MixEstimate, guess_mix
from fedcover.labelshift.weights import (
    calibration_mixture,
    effective_size,
    exact_weights,
    likelihood_ratio,
    oracle_ratio,
    subsample_sizes,
)

__all__ = [
    "MixEstimate",
    "calibration_mixture",
    "confusion",
    "effective_size",
    "exact_weights",
    "from_unlabelled",
    "group_sites",
    "guess_mix",
    "likelihood_ratio",
    "oracle_ratio",
    "subsample_sizes",
]
