"""Audits: run a method on neighbouring data sets and try to break what it claims about privacy.

datasets    the data sets that differ in a record, in a group of records, or in a site
running     real runs on them, and every number that a viewer of the claim sees
statistic   what tells the data sets apart, learned on a part of the runs
bounds      error rates of a test, turned into lower bounds on ε
result      what was found, and which claim it refutes
method      all of this, for any registered method that states an ε
paper       the same for Algorithm 1 as published
"""

from fedcover.audit.bounds import lower_bound
from fedcover.audit.method import audit_method
from fedcover.audit.paper import audit_paper
from fedcover.audit.result import Audit

__all__ = ["Audit", "audit_method", "audit_paper", "lower_bound"]
