"""The scikit-learn classifier: sets, clones, pipelines."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedcover as fc
from fedcover.sklearn import ConformalClassifier


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.choice(["ant", "bee", "cat"], size=900)
    centre = {"ant": [0, 0], "bee": [2, 0], "cat": [0, 2]}
    X = np.array([centre[label] for label in y]) + rng.normal(size=(900, 2))
    return X, y


@pytest.fixture(scope="module")
def calibrated(data):
    X, y = data
    clf = ConformalClassifier(LogisticRegression().fit(X[:300], y[:300]))
    sites = [clf.site("a", X[300:500], y[300:500], seed=0), clf.site("b", X[500:600], y[500:600])]
    return clf.set_params(calibration=fc.calibrate(sites, alpha=0.1)["a"])


def test_sets_cover_and_carry_class_names(calibrated, data):
    X, y = data
    sets = calibrated.predict_set(X[600:], seed=0)
    index = np.searchsorted(calibrated.classes_, y[600:])
    assert 0.8 < sets.coverage(index) < 0.97
    assert set(sets.labels_of(0)) <= {"ant", "bee", "cat"}


def test_predict_is_the_estimators_own(calibrated, data):
    X, y = data
    assert np.array_equal(calibrated.predict(X), calibrated.estimator.predict(X))
    assert calibrated.score(X, y) == calibrated.estimator.score(X, y)


def test_clone_keeps_estimator_and_calibration(calibrated, data):
    X, _ = data
    copy = clone(calibrated)
    assert copy is not calibrated
    assert np.array_equal(copy.predict_set(X, seed=3).mask, calibrated.predict_set(X, seed=3).mask)


def test_pipeline_end_and_pipeline_inside(data):
    X, y = data
    scaler = StandardScaler().fit(X[:300])
    model = LogisticRegression().fit(scaler.transform(X[:300]), y[:300])
    end = make_pipeline(scaler, ConformalClassifier(model)).fit(X[:300], y[:300])
    inside = ConformalClassifier(make_pipeline(scaler, model))
    assert np.array_equal(end.predict(X), inside.predict(X))
    assert np.array_equal(clone(end).fit(X[:300]).predict(X), end.predict(X))


def test_unfitted_estimator_is_noticed(data):
    X, y = data
    with pytest.raises(NotFittedError):
        ConformalClassifier(LogisticRegression()).fit(X, y)


def test_bad_use_gets_one_clear_error(calibrated, data):
    X, _ = data
    with pytest.raises(fc.FedcoverError, match="calibration is missing"):
        ConformalClassifier(calibrated.estimator).predict_set(X)
    with pytest.raises(fc.FedcoverError, match="'fly' is not a class"):
        calibrated.site("a", X[:2], ["ant", "fly"])
