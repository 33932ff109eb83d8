"""A scikit-learn classifier that answers with prediction sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fedcover.calibration import Calibration
from fedcover.checks import Seed
from fedcover.classnames import Names, in_words, names
from fedcover.errors import FedcoverError
from fedcover.inputs import listed
from fedcover.prediction import PredictionSets
from fedcover.scores import Score
from fedcover.site import Site


class ConformalClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier with a calibration: `predict` as before, `predict_set` with a promise.

    The estimator is taken as it is and never fitted again: `fit` only checks that it is fitted, and
    a clone shares the estimator instead of making a new, unfitted one.

    It can end a pipeline, whose `predict` then works as usual. A pipeline does not know
    `predict_set`: call ``pipe[-1].predict_set(pipe[:-1].transform(X))``. Or put the fitted pipeline
    inside, ``ConformalClassifier(pipe)``, and call `predict_set(X)` directly.

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
        self._check_estimator()
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The estimator's own prediction."""
        return self.estimator.predict(X)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The estimator's own probabilities."""
        self._check_estimator()
        return self.estimator.predict_proba(X)

    def predict_set(self, X: Any, seed: Seed = None) -> PredictionSets:
        """Prediction sets of new records, at the calibration's levels."""
        self._check_estimator()
        calibration = self._checked_calibration()
        # Calibrations of version 0.1 hold numbers as text: the estimator knows better.
        return calibration.predict_set(self.predict_proba(X), seed).named(self._class_names())

    def _class_names(self) -> Names | None:
        known = self.classes_.tolist()
        return names(known, len(known), "classes_")

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
        self._check_estimator()
        known = self.classes_.tolist()
        index = {c: k for k, c in enumerate(known)}
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:  # a table with one column
            labels = labels[:, 0]
        if labels.ndim != 1:
            raise FedcoverError(
                f"site {name!r}: y has shape {labels.shape}",
                allowed="one label per record",
                fix="Give a vector, a Series or a table with one column",
            )
        given = labels.tolist()
        strange = [v for v in given if v not in index]
        if strange:
            raise FedcoverError(
                f"site {name!r}: label {strange[0]!r} is not a class",
                allowed=f"the classes of the estimator ({listed([str(c) for c in known], 8)})",
                fix="Train the shared model on all classes",
            )
        return Site.from_probabilities(
            name,
            self.predict_proba(X),
            in_words(np.array([index[v] for v in given], dtype=np.int64), self._class_names()),
            score,
            seed,
            label_counts=label_counts,
            label_names=self._class_names(),
        )

    def _check_estimator(self) -> None:
        """Raises NotFittedError, as scikit-learn does, where the estimator is not fitted."""
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "predict_proba"):
            raise FedcoverError(
                f"estimator is {self.estimator!r}, without predict_proba",
                allowed="a fitted classifier that gives probabilities",
                fix="Wrap it in sklearn.calibration.CalibratedClassifierCV, for example",
            )
        check_is_fitted(self.estimator)

    def _checked_calibration(self) -> Calibration:
        given: Any = self.calibration
        if given is None:
            raise FedcoverError(
                "calibration is missing",
                allowed="predict_set after set_params(calibration=...)",
                fix="Make one with fedcover.calibrate from the sites of clf.site(...)",
            )
        if isinstance(given, Mapping):
            raise FedcoverError(
                "calibration is a dictionary of calibrations, one per target",
                allowed="one Calibration",
                fix=f"Pick the entry of this site ({listed([str(k) for k in given], 6)}), as in "
                "calibration=cals['name']",
            )
        if not isinstance(given, Calibration):
            raise FedcoverError(
                f"calibration is a {type(given).__name__}",
                allowed="a Calibration",
                fix="Make one with fedcover.calibrate, or read it with Calibration.load",
            )
        mine = [str(c) for c in self._class_names() or range(len(self.classes_))]
        theirs = [str(c) for c in given.label_names or ()]
        if theirs and theirs != mine:
            raise FedcoverError(
                f"the calibration is for the classes {listed(theirs, 8)}",
                allowed=f"a calibration of this estimator, with the classes {listed(mine, 8)}",
                fix="Calibrate with sites made from this estimator's probabilities",
            )
        return given
