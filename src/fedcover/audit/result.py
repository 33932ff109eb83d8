"""What an audit found, and which claim it refutes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    method
        What was run, on which data sets, seen by whom.
    claim, delta
        What was tested.
    lower
        Threshold bound: ε at δ is at least this, whatever the method; infinite where something
        differs without noise.
    confidence
        Probability with which all bounds are right together.
    accounted
        ε that the accountant gives the method at this δ.
    runs
        Runs on each data set.
    gaussian
        Gaussian bound: ε at δ of the least Gaussian trade-off curve that the errors allow; infinite
        as `lower` is. None where the account is not one of Gaussian releases.
    records
        In how many records the data sets of the Gaussian bound differ at most.
    exact
        Numbers, or differences of numbers, that travel without noise and differ.
    """

    method: str
    claim: float
    delta: float
    lower: float
    confidence: float
    accounted: float
    runs: int
    gaussian: float | None = None
    records: int = 1
    exact: tuple[str, ...] = ()

    @property
    def refutes_epsilon(self) -> bool:
        """Whether (ε, δ) itself is refuted, whatever the method is."""
        return self.lower > self.claim

    @property
    def refutes_account(self) -> bool:
        """Whether the Gaussian curve is refuted from which the account reads its ε."""
        return self.gaussian is not None and self.gaussian > self.claim

    @property
    def contradicted(self) -> bool:
        """Whether either is refuted at the stated confidence."""
        return self.refutes_epsilon or self.refutes_account

    def describe(self) -> str:
        """The verdict in a few sentences: both bounds, and which claim each refutes."""
        claim = f"the claim is ε = {self.claim:.4g} at δ = {self.delta:g}"
        if self.contradicted:
            what = ["(ε, δ)"] * self.refutes_epsilon + ["the Gaussian account"] * (
                self.refutes_account
            )
            verdict = f"CONTRADICTED, {' and '.join(what)}: {claim}."
        else:
            verdict = f"not contradicted: {claim}."
        lines = [verdict]
        if self.exact:
            some = "; ".join(self.exact[:3]) + (" and more" if len(self.exact) > 3 else "")
            lines.append(f"Without noise, and different: {some}.")
        runs = f"{self.runs:,} runs on each data set, {self.confidence:.0%} confidence"
        lines.append(f"Threshold bound ({runs}): ε ≥ {self._share(self.lower)}.")
        if self.gaussian is not None:
            lines.append(
                f"Gaussian bound (data sets {self.records} record{'s' * (self.records > 1)} apart; "
                f"it tests the trade-off curve of the stated events): ε ≥ "
                f"{self._share(self.gaussian)}."
            )
        return " ".join(lines)

    def _share(self, bound: float) -> str:
        """A bound, and what part of the claim it reaches."""
        if not math.isfinite(bound):
            return "∞"
        return f"{bound:.3f}" + (f" ({bound / self.claim:.0%} of it)" if self.claim > 0 else "")
