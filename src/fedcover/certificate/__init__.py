"""Certificates: P(coverage at this site ≥ 1-α) ≥ 1-β, from counts of misses. Proof: the docs.

label_mix.py            the two tests: for a label mix that is known, and one that is counted
bounds.py               bets, which both are made of; the binomial law, for a site alone
result.py               what comes out, and in which words
"""

from fedcover.certificate.bounds import certified_alone as certified_alone
from fedcover.certificate.bounds import certified_rank as certified_rank
from fedcover.certificate.label_mix import TOTALS_SHARE as TOTALS_SHARE
from fedcover.certificate.label_mix import certify_counted_mix as certify_counted_mix
from fedcover.certificate.label_mix import certify_known_mix as certify_known_mix
from fedcover.certificate.label_mix import pool_is_expected_to_win as pool_is_expected_to_win
from fedcover.certificate.result import Certificate as Certificate
from fedcover.certificate.result import Certified as Certified
