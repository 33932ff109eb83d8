"""Junk for every public entry: only a FedcoverError may escape, and no warning but ours.

HYPOTHESIS_PROFILE=long tries many more examples.
"""

from __future__ import annotations

import hashlib
import json
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedcover as fc

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")

RNG = np.random.default_rng(0)
PROBS, LABELS = RNG.dirichlet(np.ones(3), 25), RNG.integers(0, 3, 25)
SITES = [fc.Site.from_probabilities(n, PROBS, LABELS, seed=0) for n in "ab"]
CAL = fc.calibrate(SITES)["a"]
BUDGET = fc.Privacy(2, 1e-5)
SKETCHES = [
    fc.collect(SITES),
    fc.collect(SITES, fc.methods.Sketch(groups=["x", "y", "x"]), fc.Privacy(200, 1e-5)),
]

numbers = st.one_of(
    st.integers(-3, 40),
    st.floats(-2, 2),
    st.floats(),
    st.sampled_from([0.1, 0.5, 1e-3, 1e308, -1e308, 5e-324, 2**63, 2**64, 10**400, np.float32(0.5),
                     np.int8(3), np.float64("nan"), True, np.True_]),
)  # fmt: skip
scalars = st.one_of(
    numbers,
    st.none(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.complex_numbers(),
    st.sampled_from(["em", "bbse", "fourier", "exact", "tail", "a", "b", "uniform"]),
)
arrays = hnp.arrays(
    dtype=st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_, "U3",
                           np.complex128, object, "M8[s]"]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)  # fmt: skip
# Right in shape and wrong in the values: reaches further into the code than noise does.
vectors = st.lists(numbers, max_size=5)
tables = st.lists(st.lists(numbers, min_size=3, max_size=3), max_size=4)
shares = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 4), st.just(3)), elements=st.floats(0, 1)
).map(lambda a: (a + 1e-9) / (a + 1e-9).sum(axis=1, keepdims=True))
junk = st.one_of(
    scalars,
    arrays,
    vectors,
    tables,
    shares,
    st.lists(scalars, max_size=4),
    st.dictionaries(st.text(max_size=3), vectors, max_size=2),
    st.sampled_from([object(), object, fc.scores.APS, fc.scores.LAC(), fc.methods.Local(), SITES,
                     SITES[0], CAL, {"a"}, range(3), {"x": ["a"]}, {"x": [1, 1, 1]}, ["a", "b"]]),
)  # fmt: skip


def options(*names):
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, junk))


def only_ours(call, *args, **kwargs):
    """The result, or None after a FedcoverError; anything else fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", fc.FedcoverWarning)
        try:
            return call(*args, **kwargs)
        except fc.FedcoverError:
            return None


@given(junk, junk, junk, junk, options("label_counts", "score", "label_names", "temperature"))
def test_site(name, scores, labels, n_classes, more):
    if isinstance(n_classes, int) and n_classes > 10**6:
        n_classes = 3  # a number of classes beyond memory is no question of checks
    only_ours(fc.Site, name, scores, labels, n_classes=n_classes, **more)


@given(options("label_counts", "score", "label_names", "temperature"), vectors, vectors)
def test_site_with_nearly_right_records(more, scores, labels):
    only_ours(fc.Site, "a", [0.5, 0.2], [0, 1], n_classes=3, **more)
    only_ours(fc.Site, "a", scores, labels, n_classes=3)


@given(junk, junk, st.one_of(junk, st.just([0, 1])), options("score", "seed", "temperature"))
def test_from_probabilities(name, probs, labels, more):
    only_ours(fc.Site.from_probabilities, name, probs, labels, **more)
    only_ours(fc.Site.from_probabilities, "a", PROBS, LABELS, **more)


@given(st.one_of(junk, shares), st.one_of(junk, st.just([0])), options("temperature", "seed"))
@example([[1e308, -1e308]], [0], {})
@example([[1.0, 2.0]], [0], {"temperature": 1e-310})
def test_from_logits(logits, labels, more):
    only_ours(fc.Site.from_logits, "a", logits, labels, **more)
    only_ours(fc.softmax, logits, more.get("temperature", 1.0))


@given(st.sampled_from(list(fc.scores.ALL)), junk, junk, junk, junk)
def test_scores(kind, first, second, seed, u):
    score = only_ours(fc.scores.ALL[kind], *([first] if kind in ("APS", "RAPS", "SAPS") else []))
    if kind in ("RAPS", "SAPS"):
        score = only_ours(fc.scores.ALL[kind], penalty=first, **{"k_reg": second}
                          if kind == "RAPS" else {})  # fmt: skip
    if score is not None:
        for values in (
            only_ours(score.of_all, PROBS, seed=seed, u=u),
            only_ours(score.of_all, PROBS, seed=0),
            only_ours(score.of_labels, PROBS, second, u=u),
        ):
            assert values is None or ((values >= 0) & (values <= 1)).all()


@given(junk)
def test_score_descriptions(spec):
    only_ours(fc.scores.from_spec, spec)
    only_ours(fc.scores.from_spec, {"name": "RAPS", "penalty": spec})


@given(options("alpha", "method", "targets", "privacy", "engine", "seed"))
def test_calibrate(given_options):
    only_ours(fc.calibrate, SITES, **given_options)


@given(junk)
def test_calibrate_sites_and_targets(value):
    only_ours(fc.calibrate, value)
    only_ours(fc.calibrate, SITES, targets={"x": value})
    only_ours(fc.calibrate, SITES, method=fc.methods.OracleWeights(value))
    only_ours(fc.calibrate, SITES, method=fc.methods.OracleWeights(value, weights="exact"))


@given(
    st.dictionaries(
        st.sampled_from(["rounds", "local_steps", "step", "gamma", "participation", "start",
                         "sites_per_round", "average", "subsample", "mixture", "gradient_noise",
                         "count_noise"]),
        st.one_of(junk, numbers),
        max_size=3,
    )
)  # fmt: skip
@example({"gamma": 1e-300})
@example({"count_noise": 1e300})
@example({"step": 1e308, "rounds": 3})
def test_dp_fedcp_options(given_options):
    method = only_ours(fc.methods.DPFedCP, **given_options)
    if method and (method.solver == "search" or method.rounds * method.local_steps <= 10**5):
        found = only_ours(fc.calibrate, SITES, method=method)
        for cal in (found or {}).values():
            assert ((cal.thresholds >= 0) & (cal.thresholds <= 1)).all()


@given(junk, options("seed", "logits", "score", "u"))
def test_predict_set(probs, more):
    only_ours(CAL.predict_set, probs, **more)
    only_ours(CAL.predict_set, PROBS, **more)
    only_ours(CAL.sets_from_scores, probs)
    sets = CAL.predict_set(PROBS, seed=0)
    for ask in (sets.coverage, sets.coverage_band, sets.coverage_by_class, sets.coverage_by_size):
        only_ours(ask, probs)


@given(st.one_of(vectors, junk), st.one_of(vectors, junk), st.one_of(numbers, junk))
def test_weighted_quantile(values, weights, level):
    found = only_ours(fc.weighted_quantile, values, weights, level)
    assert found is None or np.isfinite(found).all()


@given(st.one_of(tables, junk), st.one_of(vectors, junk), st.one_of(st.none(), vectors, junk))
def test_likelihood_ratio(counts, target, sizes):
    for found in (
        only_ours(fc.labelshift.likelihood_ratio, counts, target, sizes),
        only_ours(fc.labelshift.likelihood_ratio, counts, 0),
        only_ours(fc.labelshift.calibration_mixture, counts, target),
    ):
        assert found is None or np.isfinite(found).all()


@given(
    st.one_of(tables, shares, junk),
    st.one_of(st.lists(st.integers(0, 9), max_size=4), junk),
    st.one_of(st.integers(0, 3), vectors, junk),
    st.one_of(st.lists(st.integers(0, 9), min_size=3, max_size=3), junk),
    st.sampled_from(["auto", "fourier", "saddlepoint", "x", None]),
)
def test_exact_weights(priors, sizes, target, counts, method):
    only_ours(fc.labelshift.exact_weights, priors, sizes, target, counts, method)


@given(st.data())
def test_exact_weights_with_zeros(data):
    """Distributions with many zeros: possible or not, never a stray warning or a NaN."""
    cells = st.lists(st.sampled_from([0, 0, 1, 1, 3]), min_size=3, max_size=3)
    rows = data.draw(st.lists(cells.filter(any), min_size=1, max_size=3))
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    total = sum(sizes) + 1
    first = data.draw(st.integers(0, total))
    second = data.draw(st.integers(0, total - first))
    counts = [first, second, total - first - second]
    for method in ("fourier", "saddlepoint"):
        found = only_ours(fc.labelshift.exact_weights, rows, sizes, 0, counts, method)
        assert found is None or found @ counts == pytest.approx(1, abs=1e-9)


@given(st.one_of(shares, junk), options("method", "source", "confusion", "tolerance"))
@example([[0.0, 1.0]], {"source": [1, 0]})
@example([[0.0, 0.0, 1.0]], {"method": "bbse", "confusion": [[1, 0, 0], [0, 1, 0], [0, 0, 0]]})
def test_from_unlabelled(probs, more):
    found = only_ours(fc.labelshift.from_unlabelled, probs, **more)
    assert found is None or found.sum() == pytest.approx(1)
    only_ours(fc.labelshift.from_unlabelled, PROBS, **more)
    only_ours(fc.labelshift.confusion, probs, more.get("source", [0]))


@given(junk, junk)
def test_group_sites(sites, groups):
    only_ours(fc.labelshift.group_sites, sites, groups)
    only_ours(fc.labelshift.group_sites, SITES, groups)


@given(st.one_of(numbers, junk), st.one_of(numbers, junk), st.one_of(numbers, junk))
def test_clopper_pearson(hits, n, confidence):
    only_ours(fc.diagnostics.clopper_pearson, hits, n, confidence)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "cal.json"


@given(data=st.binary(max_size=300))
def test_load_any_bytes(path, data):
    path.write_bytes(data)
    assert only_ours(fc.Calibration.load, path) is None


plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
        st.sampled_from([10**400, "\ud800", "fedcover/calibration", 1]),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip


@given(data=st.data())
def test_load_sealed_files_with_any_fields(path, data):
    """The checksum is no secret: fields are checked for themselves."""
    CAL.save(path)
    file = json.loads(path.read_text(encoding="utf-8"))
    body = file["calibration"]
    for field in data.draw(st.lists(st.sampled_from(sorted(body)), max_size=2)):
        body[field] = data.draw(plain)
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    file["sha256"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    if data.draw(st.booleans()):
        file[data.draw(st.sampled_from(sorted(file)))] = data.draw(plain)
    path.write_text(json.dumps(file), encoding="utf-8")
    loaded = only_ours(fc.Calibration.load, path)
    if loaded is not None:  # what loads can be used, shown and saved
        only_ours(loaded.predict_set, PROBS, seed=0)
        only_ours(loaded.predict_set, logits=PROBS, seed=0)
        only_ours(loaded.save, path)
        assert str(loaded)


@given(
    st.one_of(vectors, junk),
    options(
        "alpha", "labels", "probabilities", "source", "local_scores", "certify", "mode", "name"
    ),
)
@example([1e308, 1e308, 1e308], {})
@example([0.0, 5e-324, 0.0], {})
@example([1, 1, 1], {"local_scores": [0.5]})
@example(None, {"probabilities": PROBS, "source": [1, 0, 0]})
def test_personalise(label_counts, more):
    for sketch in SKETCHES:
        for cal in (
            only_ours(sketch.personalise, label_counts, **more),
            only_ours(sketch.personalise, None, **more),
            only_ours(sketch.personalise, [1, 2, 3], **{**more, "labels": None}),
        ):
            assert cal is None or ((cal.thresholds >= 0) & (cal.thresholds <= 1)).all()


@given(
    options("bins", "warp", "groups", "mode", "most_per_site", "design", "confusion"),
    options("privacy"),
)
@example({"groups": [([],), 1, 2]}, {})
@example({"bins": np.int64(64)}, {"privacy": fc.Privacy(200, 1e-5)})
@example({"bins": [0, 0.5, 1], "confusion": True}, {"privacy": fc.Privacy(200, 1e-5)})
def test_sketch_options(given_options, more):
    method = only_ours(fc.methods.Sketch, **given_options)
    found = None if method is None else only_ours(fc.collect, SITES, method, **more)
    if found is not None:
        only_ours(found.personalise, [1, 2, 3])


@given(junk, options("method", "privacy", "engine", "previous", "seed"))
def test_collect(sites, more):
    only_ours(fc.collect, sites)
    only_ours(fc.collect, SITES, **more)


@pytest.fixture(scope="module")
def sketch_path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "sketch.npz"


@given(data=st.binary(max_size=300))
@example(data=b"PK\x05\x06" + bytes(18))
def test_load_any_bytes_as_a_sketch(sketch_path, data):
    sketch_path.write_bytes(data)
    assert only_ours(fc.SketchResult.load, sketch_path) is None


@given(data=st.data(), which=st.sampled_from([0, 1]))
def test_load_a_sketch_with_bytes_changed(sketch_path, data, which):
    """Bytes overwritten, cut out or put in: refused, or nothing that matters has changed."""
    sketch = SKETCHES[which]
    sketch.save(sketch_path)
    raw = bytearray(sketch_path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    cut = data.draw(st.integers(0, 8))
    raw[at : at + cut] = data.draw(st.binary(max_size=8))
    sketch_path.write_bytes(raw)
    again = only_ours(fc.SketchResult.load, sketch_path)
    if again is not None:
        assert np.array_equal(again.table.table, sketch.table.table)
        assert np.array_equal(again.table.labels, sketch.table.labels)
        assert again.table.layout == sketch.table.layout
        assert again.privacy == sketch.privacy


@given(data=st.data(), which=st.sampled_from([0, 1]))
def test_load_sealed_sketches_with_any_fields(sketch_path, data, which):
    """The checksum is no secret; fields of the header and of what is in it, and arrays."""
    SKETCHES[which].save(sketch_path)
    with np.load(sketch_path) as file:
        parts = {name: file[name] for name in file.files}
    header = json.loads(parts["header"].tobytes())
    for field in data.draw(st.lists(st.sampled_from(sorted(header)), max_size=2)):
        inside = header[field]
        if isinstance(inside, dict) and data.draw(st.booleans()):
            inside[data.draw(st.sampled_from(sorted(inside)))] = data.draw(plain)
        else:
            header[field] = data.draw(plain)
    whole = {"table": parts["table"], "labels": parts["labels"]}
    if data.draw(st.booleans()):
        kinds = st.sampled_from([np.int8, np.int64, np.uint8, np.float64, "U3", np.bool_])
        shape = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
        whole[data.draw(st.sampled_from(["table", "labels"]))] = data.draw(hnp.arrays(kinds, shape))
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("labels", "table"):
            if whole[name].dtype.kind != "U":
                digest.update(np.ascontiguousarray(whole[name].astype("<i8")).tobytes())
    seal = np.frombuffer(digest.digest(), np.uint8)
    np.savez(sketch_path, header=np.frombuffer(text, np.uint8), sha256=seal, **whole)
    loaded = only_ours(fc.SketchResult.load, sketch_path)
    if loaded is not None:  # what loads can be used, shown, added and saved
        cal = only_ours(loaded.personalise, [1, 2, 3], [0.1, 0.5])
        assert cal is None or ((cal.thresholds >= 0) & (cal.thresholds <= 1)).all()
        only_ours(loaded.__add__, SKETCHES[which])
        only_ours(loaded.save, sketch_path)
        assert str(loaded)
