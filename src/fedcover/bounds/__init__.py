"""The numbered results of the paper as functions: what theory promises, in numbers.

The numbers are those printed in "Conformal Prediction for Federated Uncertainty Quantification
Under Label Shift". Formulas are implemented as printed (η* with the 14 of the appendix, not the 13
of the main text); where a proof does not support one, its docstring says so. N is the number of
calibration records of all sites, N^i that of site i, P* the target's label distribution,
P_cal = Σ_i (N^i/N) P^i the mixture, ŵ_y the likelihood ratio of y.

coverage.py        how far the coverage can be off: Theorems 2.1, 2.2, 2.4, Lemma 2.3, equation 11
optimisation.py    how far the optimiser is: Theorems 3.1, 4.1, 4.3, Corollary 4.2;
                   and Theorem 4.4 as claimed
federation.py      all of it for one federation
"""

from fedcover.bounds.coverage import (
    Bound,
    CoverageRange,
    equation_11_expected_shift_distance,
    expected_shift_distance,
    lemma_2_3_shift_distance,
    theorem_2_1_exact_weights,
    theorem_2_2_subsampled,
    theorem_2_4_estimated,
)
from fedcover.bounds.federation import BoundRow, federation_bounds
from fedcover.bounds.optimisation import (
    corollary_4_2_convergence,
    corollary_4_2_step,
    heterogeneity,
    theorem_3_1_moreau,
    theorem_4_1_convergence,
    theorem_4_3_coverage,
    theorem_4_4_claimed_epsilon,
    theorem_4_4_paper_noise,
)

__all__ = [
    "Bound",
    "BoundRow",
    "CoverageRange",
    "corollary_4_2_convergence",
    "corollary_4_2_step",
    "equation_11_expected_shift_distance",
    "expected_shift_distance",
    "federation_bounds",
    "heterogeneity",
    "lemma_2_3_shift_distance",
    "theorem_2_1_exact_weights",
    "theorem_2_2_subsampled",
    "theorem_2_4_estimated",
    "theorem_3_1_moreau",
    "theorem_4_1_convergence",
    "theorem_4_3_coverage",
    "theorem_4_4_claimed_epsilon",
    "theorem_4_4_paper_noise",
]
