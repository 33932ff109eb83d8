"""SketchResult: the collected table, which a site turns into its own calibration at home."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.calibration import Calibration, Cost
from fedcover.checks import refuse_foreign, refuse_gone
from fedcover.classnames import Names
from fedcover.errors import FedcoverError
from fedcover.fit import Provenance, calibration_of
from fedcover.inputs import listed
from fedcover.methods.base import Fit, checked_certify
from fedcover.methods.sketch.certify import with_certificate
from fedcover.methods.sketch.personalise import (
    Personal,
    blend,
    disagreement,
    level_named,
    mix_of,
)
from fedcover.methods.sketch.table import SketchTable, are_standard
from fedcover.position import positions, scores_at
from fedcover.privacy.statement import PrivacyStatement, compose_parallel
from fedcover.results import Result
from fedcover.scores import Score
from fedcover.signature import Signature, Trusted, describe, signed
from fedcover.site import Site, checked_name

if TYPE_CHECKING:
    from fedcover.identity import Identity
    from fedcover.methods.sketch.method import Sketch

Float64 = NDArray[np.float64]

CLEARLY = 1.2
"""How many times larger the sketch's error must be than that of own scores to speak of it."""


@dataclass(frozen=True, eq=False, repr=False)
class SketchResult(Result):
    """A label × score table of several sites, from which any site calibrates itself.

    Attributes
    ----------
    table
        The sums, with their layout and noise.
    privacy
        What is promised about the table; None if nothing.
    cost
        Rounds, and payload bytes per site on average.
    score, temperature, label_names
        What the sites agreed on.
    most_per_site
        Most records that one site has put in; None for all.
    signatures
        Who signed it; nobody in a process of one's own.
    """

    table: SketchTable
    privacy: PrivacyStatement | None
    cost: Cost
    score: Score | None = None
    temperature: float = 1.0
    label_names: Names | None = None
    most_per_site: int | None = None
    signatures: tuple[Signature, ...] = ()

    @property
    def signed_by(self) -> tuple[Signature, ...]:
        """Who signed this, with which key; after a change, nobody.

        Whether to believe them takes keys: `load(trusted=...)`.
        """
        if not self.signatures:
            return ()
        seal = self._digest()
        return tuple(one for one in self.signatures if one.digest == seal)

    def signed(self, identity: Identity, name: str, role: str = "site") -> SketchResult:
        """The same sketch, signed.

        Parameters
        ----------
        identity
            The private key, from `fedcover.identity.load_identity`.
        name
            Who signs, as in the rosters of those who read it.
        role
            "site", or "coordinator" of one who is called so.
        """
        one = signed(identity, role, name, "sketch", self._digest())
        return replace(self, signatures=(*self.signed_by, one))

    def _digest(self) -> str:
        from fedcover.methods.sketch.file import content_digest

        return content_digest(self)

    @property
    def n_classes(self) -> int:
        return self.table.layout.n_classes

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites in the sum."""
        return self.table.sites

    @property
    def n_records(self) -> int:
        """Calibration records in the sum; from noisy totals where the number is not public."""
        if self.table.records is not None:
            return self.table.records
        return max(1, round(float(self.table.labels.sum() / self.table.scale)))

    def __repr__(self) -> str:
        spent = "no privacy" if self.privacy is None else f"epsilon={self.privacy.epsilon:.4g}"
        return (
            f"SketchResult({len(self.sites)} sites, {self.n_records} records, "
            f"{self.n_classes} labels, {self.table.layout.bins} bins, {spent}, "
            f"{describe(self.signed_by)})"
        )

    def facts(self) -> dict[str, object]:
        layout, about = self.table.layout, "" if self.table.records else "about "
        return {
            "sites": listed(self.sites, 12),
            "records": f"{about}{self.n_records:,}",
            "table": f"{layout.rows:,} rows of labels × {layout.bins:,} bins of scores",
            "labels": self.n_classes,
            "score": self.score or "ready scores",
            "privacy": self.privacy.describe() if self.privacy else "none",
            "sent by a site": f"{self.cost.bytes_up:,} bytes",
        }

    @property
    def method(self) -> Sketch:
        """The method with this sketch's bins and groups, for sites that join later."""
        from fedcover.methods.sketch.method import Sketch

        layout = self.table.layout
        edges = (0.0, *scores_at(layout.cut_array).tolist(), 1.0)
        return Sketch(
            bins=layout.bins if are_standard(layout.cuts) else edges,
            groups=layout.groups,
            most_per_site=self.most_per_site,
            confusion=self.table.confusion is not None,
        )

    def personalise(
        self,
        label_counts: ArrayLike | Site | None = None,
        alpha: float | list[float] | tuple[float, ...] = 0.1,
        *,
        labels: ArrayLike | None = None,
        probabilities: ArrayLike | None = None,
        source: ArrayLike | None = None,
        local_scores: ArrayLike | None = None,
        certify: float | None = None,
        name: str | None = None,
        mode: str | None = None,
        **foreign: Never,
    ) -> Calibration:
        """The calibration of a site with its own label distribution; at the site, no message.

        Parameters
        ----------
        label_counts
            (C,) label counts of the site, or shares if they are not whole numbers; or the Site
            itself; or one of the two that follow instead.
        alpha
            Miscoverage level α, or several.
        labels
            (n,) labels of the site's records, to be counted.
        probabilities
            (n, C) predictions for unlabelled records, from which the label mix is estimated: by
            EM, or through a confusion matrix where the sketch has one (`Sketch(confusion=True)`).
        source
            (C,) label distribution for which `probabilities` are right, that of the training data;
            default: the label mix of this sketch.
        local_scores
            (n,) the site's own scores, if they are to be blended in where that lowers the error;
            they stay in this process.
        certify
            Probability with which the coverage is to be at least 1-α, .95 for example: over the
            calibration records, the noise, and the labels from which the mix was counted.
        name
            The site's name, for the calibration; default that of a Site, or "site". Own scores of
            a site that is in the sketch count for what they add to it.
        """
        refuse_gone(mode=mode)
        refuse_foreign("personalise", foreign)
        alphas = checks.asked_alphas(alpha)
        if isinstance(label_counts, Site) and self.label_names:
            label_counts = label_counts.in_order(self.label_names)
        site = label_counts if isinstance(label_counts, Site) else None
        counts = label_counts.label_counts if isinstance(label_counts, Site) else label_counts
        if site is not None:
            name = name or site.name
        name = checked_name("site" if name is None else name, "name")
        own = None
        if local_scores is not None:
            own = positions(checks.unit_scores(local_scores, "local_scores"))
            if not len(own):
                raise FedcoverError(
                    "local_scores is empty", allowed="at least one score", fix="Leave it out"
                )
        confidence = checked_certify(certify, self.method)
        given = (counts, labels, probabilities, source)
        mix = mix_of(self.table, self.label_names, *given, known=confidence is not None)
        personal = Personal(self.table, mix, alphas)
        fit = personal.fit()
        if own is not None:
            fit = _with_own(fit, personal, own, name in self.sites)
        elif mix.counted is not None and confidence is None:
            fit = _advised(fit, personal.errors.total, mix.counted, alphas)
        if confidence is not None:
            if site is not None:
                own = site.positions
            fit = with_certificate(fit, personal, confidence, own)
        origin = Provenance(
            None if self.privacy is None else self.privacy.with_own_mix(),
            self.cost,
            len(self.sites),
            self.score,
            self.temperature,
            self.label_names,
        )
        cal = calibration_of(fit, name, alphas, self.method, origin)
        return replace(cal, signatures=self.signed_by)

    def __add__(self, other: SketchResult) -> SketchResult:
        """The sketch of both groups of sites; sites must be different, layouts the same."""
        if not isinstance(other, SketchResult):
            return NotImplemented
        for what in ("score", "temperature", "label_names", "most_per_site"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs and not (what == "label_names" and None in (mine, theirs)):
                raise FedcoverError(
                    f"the two sketches differ in {what}",
                    allowed=f"the same {what}",
                    fix="Tables of different scores or classes cannot be added",
                )
        # First: its error says more than the table's.
        privacy = compose_parallel(self.privacy, other.privacy)
        table = self.table + other.table
        sites = len(self.sites) + len(other.sites)

        def average(one: int, two: int) -> int:
            return round((one * len(self.sites) + two * len(other.sites)) / sites)

        cost = Cost(
            max(self.cost.rounds, other.cost.rounds),
            average(self.cost.bytes_up, other.cost.bytes_up),
            average(self.cost.bytes_down, other.cost.bytes_down),
        )
        return replace(
            self,
            table=table,
            privacy=privacy,
            cost=cost,
            label_names=self.label_names or other.label_names,
            signatures=(),
        )

    def save(self, path: str | Path) -> None:
        """Write the sketch as one small .npz file with a schema version and a checksum."""
        from fedcover.methods.sketch.file import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path, trusted: Trusted | None = None) -> SketchResult:
        """Read what `save` wrote; refuses what is corrupt, foreign or newer.

        Parameters
        ----------
        path
            The file.
        trusted
            Public keys of those who are believed: by name, or the path of a roster. A sketch that
            none of them has signed is refused.
        """
        from fedcover.methods.sketch.file import load

        return load(path, trusted)


def _with_own(fit: Fit, personal: Personal, own: NDArray[np.int64], in_sketch: bool) -> Fit:
    """The fit with the site's own scores blended in."""
    both, alphas = blend(personal, own, in_sketch), personal.alphas
    a = int(np.argmax(both.error))
    share = both.share[a]
    used = "the sketch alone" if share == 0 else "own scores alone" if share == 1 else "both"
    alarms = fit.alarms
    if both.disagree > disagreement(len(alphas)):
        alarms += (
            f"own scores and the sketch are {both.disagree:.1f} standard deviations apart: "
            "records of one label may not look alike at all sites, and then only own scores "
            "(method Local) keep the promise",
        )
    return replace(
        fit,
        positions=both.positions,
        own_scores=bool((both.share > 0).any()),
        coverage_error=both.error,
        alarms=alarms,
        error=f"{level_named(alphas, a)}coverage {1 - alphas[a]:g} ± {both.error[a]:.3f} with "
        f"{used}, by estimated error: own scores count {share:.0%} (sketch alone "
        f"± {personal.errors.total[a]:.3f}, own alone "
        f"± {np.sqrt(alphas[a] * (1 - alphas[a]) / len(own)):.3f}){personal.mix.said}",
    )


def _advised(fit: Fit, total: Float64, counted: int, alphas: tuple[float, ...]) -> Fit:
    """A hint where the site's own records, if they have scores, say more than the sketch."""
    alone = np.sqrt([a * (1 - a) / counted for a in alphas])
    a = int(np.argmax(total - alone))
    if total[a] <= CLEARLY * alone[a]:
        return fit
    return replace(
        fit,
        alarms=(
            *fit.alarms,
            f"its own {counted} records, if they have scores, know its coverage to "
            f"± {alone[a]:.3f}, the sketch to ± {total[a]:.3f}: give local_scores",
        ),
    )
