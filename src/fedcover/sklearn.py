"""A scikit-learn classifier that answers with prediction sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fedcover.calibration import Calibration
from fedcover.checks import Seed
from fedcover.errors import FedcoverError
from fedcover.prediction import PredictionSets
from fedcover.scores import Score
from fedcover.site import Site


class ConformalClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier with a calibration: `predict` as before, `predict_set` with a promise.

    The estimator is taken as it is and never fitted again: `fit` checks it, and a clone
    shares it. So it can end a pipeline, and be copied by scikit-learn's tools.

    Parameters
    ----------
    estimator
        a fitted classifier (or pipeline) with `predict_proba`.
    calibration
        a Calibration made from this estimator's outputs; needed by `predict_set` only.

    Examples
    --------
    >>> clf = ConformalClassifier(model)                                   # doctest: +SKIP
    >>> site = clf.site("mercy", X_cal, y_cal)                             # doctest: +SKIP
    >>> cals = fedcover.calibrate([site, *others])                         # doctest: +SKIP
    >>> clf.set_params(calibration=cals["mercy"]).predict_set(X_new)       # doctest: +SKIP
    """

    def __init__(self, estimator: Any, calibration: Calibration | None = None) -> None:
        self.estimator = estimator
        self.calibration = calibration

    def __sklearn_clone__(self) -> ConformalClassifier:
        return type(self)(self.estimator, self.calibration)

    def __sklearn_is_fitted__(self) -> bool:
        check_is_fitted(self.estimator)
        return True

    @property
    def classes_(self) -> NDArray[Any]:
        return np.asarray(self.estimator.classes_)

    def fit(self, X: Any, y: Any = None) -> ConformalClassifier:
        """Check that the estimator is fitted; its parameters are not touched."""
        check_is_fitted(self.estimator)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The estimator's own prediction."""
        return self.estimator.predict(X)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The estimator's own probabilities."""
        return self.estimator.predict_proba(X)

    def predict_set(self, X: Any, seed: Seed = None) -> PredictionSets:
        """Prediction sets of new records, at the calibration's levels."""
        if self.calibration is None:
            raise FedcoverError(
                "calibration is missing",
                allowed="predict_set after set_params(calibration=...)",
                fix="Make one with fedcover.calibrate from the sites of clf.site(...)",
            )
        return self.calibration.predict_set(self.predict_proba(X), seed)

    def site(
        self,
        name: str,
        X: Any,
        y: ArrayLike,
        score: Score | None = None,
        seed: Seed = None,
        label_counts: ArrayLike | None = None,
    ) -> Site:
        """The site with these calibration records, whose labels are the estimator's classes."""
        known = self.classes_.tolist()
        index = {c: k for k, c in enumerate(known)}
        given = np.asarray(y).tolist()
        strange = [v for v in given if v not in index]
        if strange:
            raise FedcoverError(
                f"site {name!r}: label {strange[0]!r} is not a class",
                allowed=f"the classes of the estimator ({', '.join(map(str, known[:8]))}, …)",
                fix="Train the shared model on all classes",
            )
        return Site.from_probabilities(
            name,
            self.predict_proba(X),
            [index[v] for v in given],
            score,
            seed,
            label_counts=label_counts,
            label_names=[str(c) for c in known],
        )
