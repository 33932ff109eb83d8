"""The scikit-learn classifier: sets, clones, pipelines."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

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
    sites = [inside.site("a", X[300:600], y[300:600], seed=0)]
    cal = fc.calibrate(sites)["a"]
    end[-1].set_params(calibration=cal)
    inside.set_params(calibration=cal)
    by_step = end[-1].predict_set(end[:-1].transform(X), seed=0)
    assert np.array_equal(by_step.mask, inside.predict_set(X, seed=0).mask)


def test_unfitted_estimator_is_noticed(data):
    X, y = data
    clf = ConformalClassifier(LogisticRegression())
    for ask in (lambda: clf.fit(X, y), lambda: clf.site("a", X, y), lambda: clf.predict_proba(X)):
        with pytest.raises(NotFittedError):
            ask()


def test_bad_use_gets_one_clear_error(calibrated, data):
    X, _ = data
    with pytest.raises(fc.FedcoverError, match="calibration is missing"):
        ConformalClassifier(calibrated.estimator).predict_set(X)
    with pytest.raises(fc.FedcoverError, match="'fly' is not a class"):
        calibrated.site("a", X[:2], ["ant", "fly"])


def test_estimator_without_probabilities_is_refused(data):
    X, y = data
    for estimator in (LinearSVC().fit(X, y), LogisticRegression, None):
        clf = ConformalClassifier(estimator)
        for ask in (lambda c=clf: c.fit(X), lambda c=clf: c.site("a", X, y)):
            with pytest.raises(fc.FedcoverError, match="predict_proba"):
                ask()


def test_calibration_of_another_model_is_refused(calibrated, data):
    X, y = data
    renamed = np.where(y == "cat", "dog", y)
    other = ConformalClassifier(LogisticRegression().fit(X, renamed), calibrated.calibration)
    with pytest.raises(fc.FedcoverError, match=r"classes ant, bee, cat.*classes ant, bee, dog"):
        other.predict_set(X)


def test_all_calibrations_at_once_are_refused(calibrated, data):
    X, _ = data
    cals = {"a": calibrated.calibration, "b": calibrated.calibration}
    clf = ConformalClassifier(calibrated.estimator, cals)
    with pytest.raises(fc.FedcoverError, match=r"Pick the entry of this site \(a, b\)"):
        clf.predict_set(X)
    with pytest.raises(fc.FedcoverError, match="calibration is a str"):
        clf.set_params(calibration="cal.json").predict_set(X)


def test_labels_from_tables(calibrated, data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    plain = calibrated.site("a", X, y, seed=0)
    frame = pandas.DataFrame({"label": y})
    for given in (frame, frame["label"], frame["label"].astype("category"), y[:, None]):
        assert np.array_equal(calibrated.site("a", X, given, seed=0).scores, plain.scores)
    with pytest.raises(fc.FedcoverError, match="y has shape"):
        calibrated.site("a", X, np.zeros((len(X), 2)))
