"""Label shift: from label counts to the weights that make other sites' records count as one's own.

weights.py    likelihood ratios ŵ_y from counts (eq. 7 and 10), mixtures, effective size, and the
              exact weights of Theorem 2.1 in closed form
estimate.py   a target's label distribution from unlabelled predictions: plain, or by the better
              founded of two ways with its error; groups of similar sites
estimators.py the two ways: EM, and a measured confusion matrix, with their doubts and errors
"""

from fedcover.labelshift.estimate import (
    MixEstimate,
    confusion,
    from_unlabelled,
    group_sites,
    guess_mix,
)
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
