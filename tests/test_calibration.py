"""Calibration: files that survive a round trip and nothing else; prediction from them."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import fedcover as fc

RNG = np.random.default_rng(0)
PROBS, LABELS = RNG.dirichlet(np.ones(3), 80), RNG.integers(0, 3, 80)
NAMES = ("Kühe", "b c", '"d"')


@pytest.fixture(scope="module")
def cal():
    site = fc.Site.from_probabilities(
        "Zürich 日本", PROBS, LABELS, score=fc.scores.RAPS(penalty=0.03), seed=1, label_names=NAMES
    )
    return fc.calibrate([site], alpha=[0.1, 0.3], method=fc.methods.EstimatedWeights())[site.name]


@pytest.fixture
def saved(cal, tmp_path):
    cal.save(tmp_path / "cal.json")
    return tmp_path / "cal.json"


def reseal(path, **changes):
    """Change fields of a file and put the right checksum on it, as anybody can."""
    file = json.loads(path.read_text(encoding="utf-8"))
    file["calibration"] |= changes
    text = json.dumps(file["calibration"], sort_keys=True, ensure_ascii=False)
    file["sha256"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    path.write_text(json.dumps(file), encoding="utf-8")


def test_round_trip_is_bit_exact(cal, saved):
    again = fc.Calibration.load(saved)
    for name, value in vars(cal).items():
        assert np.array_equal(getattr(again, name), value), name
    assert again.thresholds.tobytes() == cal.thresholds.tobytes()
    assert np.array_equal(
        again.predict_set(PROBS, seed=3).mask, cal.predict_set(PROBS, seed=3).mask
    )


def test_saving_replaces_the_file_and_leaves_no_parts(cal, saved):
    before = saved.read_bytes()
    cal.save(saved)
    fc.Calibration.load(saved).save(str(saved))
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["cal.json"]


def test_files_do_not_depend_on_the_locale(saved):
    """Names and guarantees hold letters that not every default encoding has."""
    code = (
        "import fedcover as fc, sys; c = fc.Calibration.load(sys.argv[1]); "
        "c.save(sys.argv[1]); c.predict_set([[.2, .3, .5]], seed=0).to_csv(sys.argv[1] + '.csv')"
    )
    strict = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    done = subprocess.run(
        [sys.executable, *strict, "-c", code, str(saved)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("keep", [0, 1, 20, 0.3, 0.99])
def test_truncated_files_are_refused(saved, keep):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(fc.FileError, match=r"cal\.json"):
        fc.Calibration.load(saved)


def test_a_flipped_bit_anywhere_is_noticed(cal, saved):
    data, rng = saved.read_bytes(), np.random.default_rng(0)
    for position in rng.choice(len(data), size=400):
        broken = bytearray(data)
        broken[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(broken)
        try:
            again = fc.Calibration.load(saved)
        except fc.FileError:
            continue
        # JSON reads 1e-06 and 1E-06 alike: then nothing has changed.
        assert all(np.array_equal(getattr(again, k), v) for k, v in vars(cal).items())


def test_edited_thresholds_are_noticed(cal, saved):
    file = json.loads(saved.read_text(encoding="utf-8"))
    file["calibration"]["thresholds"][0][0] = 0.123
    saved.write_text(json.dumps(file), encoding="utf-8")
    with pytest.raises(fc.FileError, match="checksum"):
        fc.Calibration.load(saved)


@pytest.mark.parametrize("version", [4, 0, None, "1", [1], True, 1.5])
def test_other_versions_are_refused_by_number(saved, version):
    file = json.loads(saved.read_text(encoding="utf-8")) | {"version": version}
    saved.write_text(json.dumps(file), encoding="utf-8")
    with pytest.raises(fc.FileError, match="version"):
        fc.Calibration.load(saved)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 50,
        b"null",
        b"[]",
        b'{"schema": "other"}',
        b"\xff\xfe",
        b"1" * 5000,  # an integer Python refuses to read
        b"[" * 100_000,
        b'{"a":' * 50_000,
        pickle.dumps(Bomb()),
        b'{"schema": "fedcover/calibration", "version": 1}',
        b'{"schema": "fedcover/calibration", "version": 1, "sha256": 0, "calibration": "\\ud800"}',
    ],
    ids=lambda c: repr(c[:30]),
)
def test_foreign_files_are_refused(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(fc.FileError):
        fc.Calibration.load(tmp_path / "x.json")


@pytest.mark.parametrize("depth", [200, 900, 990, 1000, 3000])
def test_deeply_nested_files_are_refused(tmp_path, depth):
    head = b'{"schema": "fedcover/calibration", "version": 1, "sha256": "", "calibration": '
    (tmp_path / "x.json").write_bytes(head + b"[" * depth + b"]" * depth + b"}")
    with pytest.raises(fc.FileError):
        fc.Calibration.load(tmp_path / "x.json")


@pytest.mark.parametrize("path", ["missing.json", ".", "a\0b", None, 5], ids=repr)
def test_paths_that_cannot_be_read_are_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fc.FedcoverError):
        fc.Calibration.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"alpha": [0.1, 2]},
        {"alpha": [0.1]},
        {"alpha": None},
        {"thresholds": [[0.1, 0.2], [0.1, 0.2]]},
        {"thresholds": [[0.1, 0.2, 1.2]] * 2},
        {"thresholds": [[0.1, 0.2, float("nan")]] * 2},
        {"thresholds": [[0.1, 0.2, 10**400]] * 2},
        {"thresholds": "x"},
        {"distances": [[0.1, 0.2, 0.3]] * 2},
        {"distances": None},
        {"thresholds": [[], []], "ratios": [], "label_names": []},
        {"ratios": [1, 1]},
        {"ratios": [1, 1, -1]},
        {"ratios": [1, 1, float("nan")]},
        {"ratios": [1, 1, 10**400]},
        {"score": {"name": "APS", "u": 7}},
        {"score": {"name": "Nope"}},
        {"score": {"name": ["APS"]}},
        {"score": 5},
        {"temperature": "hot"},
        {"temperature": -1},
        {"temperature": 10**400},
        {"n_records": -3},
        {"n_records": "many"},
        {"label_names": ["a", "a", "b"]},
        {"label_names": 3},
        {"cost": {"rounds": 1}},
        {"cost": 3},
        {"notes": 3},
        {"target": 3},
        {"surprise": 1},
    ],
    ids=lambda c: repr(c)[:50],
)
def test_impossible_fields_are_refused_even_with_a_right_checksum(saved, changes):
    reseal(saved, **changes)
    with pytest.raises(fc.FileError):
        fc.Calibration.load(saved)


@pytest.mark.parametrize("field", ["thresholds", "alpha", "cost", "score", "target", "notes"])
def test_missing_fields_are_refused(saved, field):
    file = json.loads(saved.read_text(encoding="utf-8"))
    del file["calibration"][field]
    text = json.dumps(file["calibration"], sort_keys=True, ensure_ascii=False)
    file["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    saved.write_text(json.dumps(file), encoding="utf-8")
    with pytest.raises(fc.FileError):
        fc.Calibration.load(saved)


def test_shapes_for_one_and_several_levels(cal):
    assert cal.predict_set(PROBS[:7], seed=0).mask.shape == (2, 7, 3)
    site = fc.Site.from_probabilities("a", PROBS, LABELS, seed=0)
    one = fc.calibrate([site], alpha=0.1)["a"].predict_set(PROBS[:7], seed=0)
    assert one.mask.shape == (7, 3)
    assert one.sizes.shape == (7,)
    assert isinstance(one.coverage(LABELS[:7]), float)


def test_a_label_is_in_the_set_where_its_score_is_at_most_its_threshold(cal):
    u = np.random.default_rng(1).random(80)
    values = cal.score.of_all(PROBS, u=u)
    mask = cal.predict_set(PROBS, u=u).mask
    clear = np.abs(values - cal.thresholds[:, None]) > 1e-9
    assert clear.mean() > 0.99
    assert np.array_equal(mask[clear], (values <= cal.thresholds[:, None])[clear])
    assert np.array_equal(
        cal.sets_from_scores(values).mask, values[None] <= cal.thresholds[:, None]
    )


def test_a_record_that_was_calibrated_on_the_edge_is_in_its_own_set():
    """Models with few distinct outputs (trees) put many records exactly on the threshold.

    The scores at calibration and at prediction then have to agree, or be compared with care for
    rounding: otherwise the whole group of records is lost at once.
    """
    rng = np.random.default_rng(0)
    for n_classes in (3, 4, 10, 100):
        rows = rng.dirichlet(np.ones(n_classes), 5)
        probs, labels = rows[rng.integers(0, 5, 400)], rng.integers(0, n_classes, 400)
        for score in (fc.scores.APS(u=1.0), fc.scores.RAPS(u=0.5)):
            site = fc.Site.from_probabilities("a", probs, labels, score=score)
            levels = tuple(np.round(np.arange(0.05, 0.65, 0.05), 2))
            cal = fc.calibrate([site], alpha=levels, method=fc.methods.Local())["a"]
            coverage = cal.predict_set(probs).coverage(labels)
            assert (coverage >= 1 - np.array(levels)).all()


def test_logits_get_the_temperature_of_the_calibration():
    logits = np.log(PROBS) * 3
    site = fc.Site.from_logits("a", logits, LABELS, temperature=3.0, score=fc.scores.LAC())
    cal = fc.calibrate([site])["a"]
    assert np.array_equal(cal.predict_set(logits=logits).mask, cal.predict_set(PROBS).mask)


def test_ready_scores_need_the_score_function_at_prediction():
    site = fc.Site("a", fc.scores.LAC().of_labels(PROBS, LABELS), LABELS, n_classes=3)
    cal = fc.calibrate([site])["a"]
    with pytest.raises(fc.FedcoverError, match="score"):
        cal.predict_set(PROBS)
    given = cal.predict_set(PROBS, score=fc.scores.LAC())
    assert np.array_equal(given.mask, cal.sets_from_scores(1 - PROBS).mask)
    for bad in ("lac", fc.scores.LAC, np.ones(3)):
        with pytest.raises(fc.FedcoverError, match="score"):
            cal.predict_set(PROBS, score=bad)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"probs": PROBS, "logits": PROBS},
        {"probs": PROBS[:, :2] / PROBS[:, :2].sum(axis=1, keepdims=True)},
        {"probs": PROBS, "score": fc.scores.LAC()},
        {"probs": PROBS, "score": np.ones(3)},
        {"probs": PROBS, "u": [0.5, 0.5]},
        {"probs": PROBS, "u": 2},
        {"probs": PROBS, "seed": "x"},
        {"probs": PROBS * 2},
        {"probs": "x"},
        {"logits": [[np.nan, 1, 1]]},
    ],
    ids=lambda o: repr(o)[:20] + repr(sorted(o)),
)
def test_bad_prediction_input_is_refused(cal, options):
    with pytest.raises(fc.FedcoverError):
        cal.predict_set(**options)


def test_ready_scores_are_checked(cal):
    for bad in ([[0.1, 0.2]], [[0.1, 0.2, 1.3]], [0.1, 0.2], "x", [[np.nan] * 3]):
        with pytest.raises(fc.FedcoverError):
            cal.sets_from_scores(bad)


def test_files_of_version_1_are_read(cal, saved):
    """They had no distances, which are then 1 - thresholds."""
    file = json.loads(saved.read_text(encoding="utf-8"))
    del file["calibration"]["distances"]
    text = json.dumps(file["calibration"], sort_keys=True, ensure_ascii=False)
    file |= {"version": 1, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    saved.write_text(json.dumps(file), encoding="utf-8")
    old = fc.Calibration.load(saved)
    assert np.array_equal(old.thresholds, cal.thresholds)
    assert np.array_equal(old.distances, 1 - cal.thresholds)
    assert np.array_equal(old.predict_set(PROBS, seed=3).mask, cal.predict_set(PROBS, seed=3).mask)


def test_distances_survive_where_thresholds_are_one(tmp_path):
    far = np.geomspace(1e-40, 1e-20, 50)
    site = fc.Site("a", np.ones(50), [0, 1] * 25, n_classes=2, distances=far)
    cal = fc.calibrate([site], alpha=0.2, method=fc.methods.Local())["a"]
    assert (cal.thresholds == 1).all()
    assert (cal.distances == far[9]).all()  # ⌈.8·51⌉ = 41 records have at least this distance
    cal.save(tmp_path / "cal.json")
    assert np.array_equal(fc.Calibration.load(tmp_path / "cal.json").distances, cal.distances)
    inside = cal.sets_from_scores([[1.0, 1.0]], [[far[9], far[8]]])
    assert inside.mask.tolist() == [[True, False]]
