"""Certificates: P(coverage at this site ≥ 1-α) ≥ 1-β, from counts of misses. Proof: the docs.

known.py, counted.py    the two tests, one per kind of label mix
bounds.py               bets, which both are made of; the binomial law, for a site alone
result.py               what comes out, and in which words
"""

from fedcover.certificate.bounds import certified_alone as certified_alone
from fedcover.certificate.bounds import certified_rank as certified_rank
from fedcover.certificate.counted import certify_counted_mix as certify_counted_mix
from fedcover.certificate.counted import pool_is_expected_to_win as pool_is_expected_to_win
from fedcover.certificate.known import TOTALS_SHARE as TOTALS_SHARE
from fedcover.certificate.known import certify_known_mix as certify_known_mix
from fedcover.certificate.result import Certificate as Certificate
from fedcover.certificate.result import Certified as Certified
