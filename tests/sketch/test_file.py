"""A sketch as a file: what was saved comes back bit for bit, and nothing else comes in."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tracemalloc
import zipfile
from dataclasses import fields

import numpy as np
import pytest

import fedcover as fc
from fedcover import wire
from fedcover._io.archives import Archive
from fedcover.methods.base import Task
from fedcover.methods.sketch import file as sketch_file
from fedcover.methods.sketch.table import SketchTable

from .building import FOUR, LEVELS, SKETCH, budget, even, powers

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

PARTS = ("header", "sha256", "table", "labels")


def sites_of(n_classes=4, **more):
    rng = np.random.default_rng(0)
    return [
        fc.Site(
            name,
            rng.random(400),
            rng.integers(0, n_classes, 400),
            n_classes=n_classes,
            predictions=rng.integers(0, n_classes, 400),
            **more,
        )
        for name in ("Zürich 日本", "b")
    ]


@pytest.fixture(scope="module")
def kinds():
    named = sites_of(3, label_names=["Kühe", "b c", '"d"'], score=fc.scores.RAPS(penalty=0.03))
    return {
        "exact": fc.collect(sites_of()),
        "private": fc.collect(sites_of(), None, budget()),
        "view": fc.collect(sites_of(), SKETCH(bins=FOUR), budget(8.0, view="server")),
        "groups": fc.collect(sites_of(), SKETCH(groups=list("abab"))),
        "named": fc.collect(named, SKETCH(bins=even(6)), budget(relation="add-remove")),
        "site": fc.collect(sites_of(), SKETCH(most_per_site=20), budget(unit="site")),
        "number": fc.collect(sites_of(), SKETCH(bins=70), budget()),
        "confusion": fc.collect(sites_of(), SKETCH(bins=FOUR, confusion=True), budget()),
        "exact confusion": fc.collect(sites_of(), SKETCH(confusion=True)),
        "renewed": fc.collect(
            sites_of(), None, budget(), previous=fc.collect(sites_of(), None, budget())
        ),
        "hot": fc.collect(sites_of(temperature=1.6)),
    }


KINDS = ["exact", "private", "view", "groups", "named", "site", "number", "confusion",
         "exact confusion", "renewed", "hot"]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sketch.npz"


@pytest.fixture
def saved(kinds, path):
    kinds["private"].save(path)
    return path


def differences(one, two):
    """Names of the facts in which two sketches differ."""
    out = []
    for a, b in ((one, two), (one.table, two.table)):
        for key in (f.name for f in fields(a)):
            x, y = getattr(a, key), getattr(b, key)
            if isinstance(x, SketchTable):
                continue
            if isinstance(x, np.ndarray):
                equal = x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
            else:
                equal = type(x) is type(y) and repr(x) == repr(y)
            if not equal:
                out.append(key)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_bit_exact(kinds, path, kind):
    sketch = kinds[kind]
    sketch.save(path)
    again = fc.SketchResult.load(path)
    assert differences(sketch, again) == []
    assert again.method == sketch.method
    mix = np.arange(1, sketch.n_classes + 1)
    one, two = (s.personalise(mix, LEVELS) for s in (sketch, again))
    assert one.thresholds.tobytes() == two.thresholds.tobytes()
    assert one.distances.tobytes() == two.distances.tobytes()
    assert one.coverage_error.tobytes() == two.coverage_error.tobytes()
    assert (one.guarantee, one.notes, one.privacy) == (two.guarantee, two.notes, two.privacy)


def test_a_loaded_sketch_adds_up_with_others(kinds, path):
    late = powers(np.random.default_rng(5), [500], np.ones(4), name="late")
    for kind, privacy in (("exact", None), ("private", budget())):
        kinds[kind].save(path)
        again = fc.SketchResult.load(path)
        both = again + fc.collect(late, again.method, privacy)
        assert len(both.sites) == 3
        both.save(path)
        assert differences(fc.SketchResult.load(path), both) == []


def test_saving_replaces_the_file_and_leaves_no_parts(kinds, saved):
    before = saved.read_bytes()
    fc.SketchResult.load(saved).save(str(saved))
    assert fc.SketchResult.load(saved).table.table.tolist() == kinds["private"].table.table.tolist()
    assert len(saved.read_bytes()) == len(before)
    assert [p.name for p in saved.parent.iterdir()] == ["sketch.npz"]


def test_an_integer_of_any_type_can_be_saved(path):
    """Options may come from arrays."""
    sketch = fc.collect(sites_of(), SKETCH(most_per_site=np.int64(30), bins=np.int32(65)))
    sketch.save(path)
    assert fc.SketchResult.load(path).most_per_site == 30


@pytest.mark.parametrize("keep", [0, 1, 4, 30, 0.3, 0.6, 0.99, -1])
def test_truncated_files_are_refused(saved, keep):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(fc.FileError, match=r"sketch\.npz"):
        fc.SketchResult.load(saved)


def test_a_flipped_bit_anywhere_is_noticed(kinds, saved):
    data, rng, refused = saved.read_bytes(), np.random.default_rng(0), 0
    for position in rng.choice(len(data), size=250):
        broken = bytearray(data)
        broken[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(broken)
        try:
            again = fc.SketchResult.load(saved)
        except fc.FileError:
            refused += 1
            continue
        assert differences(kinds["private"], again) == []  # a date, an unused flag of the archive
    assert refused > 150


@pytest.mark.parametrize("name", ["header", "table", "labels"])
def test_edited_parts_are_noticed_by_the_checksum(saved, name):
    """In a sound archive: the checksum of the zip file is right, that of the sketch is not."""
    array = parts_of(saved)[name].copy()
    if name == "header":
        array = np.frombuffer(array.tobytes().replace(b"secure-sum", b"server"), np.uint8)
    else:
        array.flat[0] += 1
    rebuilt(saved, **{name: npy(array)})
    with pytest.raises(fc.FileError, match="checksum"):
        fc.SketchResult.load(saved)


def parts_of(path):
    with np.load(path) as file:
        return {name: file[name] for name in PARTS}


def sealed(header, arrays, path):
    """Write a file with a checksum that fits, as anybody can."""
    text = json.dumps(header).encode()
    digest = hashlib.sha256(text)
    for name in ("labels", "table"):
        digest.update(arrays[name].astype("<i8").tobytes())
    np.savez(
        path,
        header=np.frombuffer(text, np.uint8),
        sha256=np.frombuffer(digest.digest(), np.uint8),
        **arrays,
    )


def reseal(path, arrays=None, **changes):
    """Change fields of the header, or of a table within it, and arrays."""
    parts = parts_of(path)
    header = json.loads(parts["header"].tobytes())
    for key, value in changes.items():
        inner = isinstance(value, dict) and isinstance(header.get(key), dict)
        header[key] = {**header[key], **value} if inner else value
    kept = {name: parts[name] for name in ("table", "labels")}
    sealed(header, {**kept, **(arrays or {})}, path)


def test_the_checksum_of_the_tests_is_the_right_one(kinds, saved):
    """Or the tests below would all fail at the checksum."""
    reseal(saved)
    assert differences(fc.SketchResult.load(saved), kinds["private"]) == []
    assert sketch_file.SCHEMA_VERSION == 3


@pytest.mark.parametrize("version", [4, 0, None, "2", [2], 1.5])
def test_other_versions_are_refused_by_number(saved, version):
    reseal(saved, version=version)
    with pytest.raises(fc.FileError, match="version"):
        fc.SketchResult.load(saved)


def test_a_sketch_of_the_first_version_is_refused_with_what_to_do(saved):
    """Its bins lose coverage: reading it would be worse than collecting again."""
    reseal(saved, version=1, mode="balanced", layout={"edges": [0, 0.5, 1], "design": "flat"})
    with pytest.raises(fc.FileError, match=r"fedcover 0\.1") as found:
        fc.SketchResult.load(saved)
    assert "Collect again" in str(found.value)


FIELDS = {
    "another schema": {"schema": "fedcover/calibration"},
    "no layout": {"layout": None},
    "other classes": {"layout": {"n_classes": 5}},
    "no classes": {"layout": {"n_classes": "4"}},
    "one class": {"layout": {"n_classes": 1}},
    "falling cuts": {"layout": {"cuts": [5, 3]}},
    "repeated cuts": {"layout": {"cuts": [3, 3]}},
    "no cuts": {"layout": {"cuts": []}},
    "negative cuts": {"layout": {"cuts": [-1, 5]}},
    "cuts beyond 1": {"layout": {"cuts": [5, 2**63 - 1]}},
    "cuts beyond 64 bits": {"layout": {"cuts": [5, 2**70]}},
    "cuts of scores": {"layout": {"cuts": [0.1, 0.5]}},
    "cuts of truths": {"layout": {"cuts": [False, True]}},
    "a table of cuts": {"layout": {"cuts": [[1, 2], [3, 4]]}},
    "cuts of text": {"layout": {"cuts": "many"}},
    "too many cuts": {"layout": {"cuts": list(range(5000))}},
    "factored, perhaps": {"layout": {"factored": 1}},
    "groups of text": {"layout": {"groups": ["a", "b", "a", "b"]}},
    "groups that skip": {"layout": {"groups": [0, 2, 0, 2]}},
    "negative groups": {"layout": {"groups": [0, -1, 0, -1]}},
    "groups of truths": {"layout": {"groups": [True, False, True, False]}},
    "scale 0": {"scale": 0},
    "scale of text": {"scale": "64"},
    "huge scale": {"scale": 2**60},
    "negative noise": {"table_noise": [-1.0]},
    "noise of text": {"table_noise": ["x"]},
    "noise of NaN": {"label_noise": [float("nan")]},
    "noise beyond any sum": {"table_noise": [1e308, 1e308, 1e308]},
    "noise that is no list": {"table_noise": 3.0},
    "no records": {"records": 0},
    "half a record": {"records": 0.5},
    "no sites": {"sites": []},
    "sites of numbers": {"sites": [1, 2]},
    "a site twice": {"sites": ["b", "b"]},
    "a name that cannot be shown": {"sites": ["a\n\x00"]},
    "limit of text": {"most_per_site": "9"},
    "no cost": {"cost": None},
    "rounds of text": {"cost": {"rounds": "x"}},
    "negative bytes": {"cost": {"bytes_up": -5}},
    "unknown score": {"score": {"name": "x"}},
    "temperature 0": {"temperature": 0},
    "three names": {"label_names": ["a", "b", "c"]},
    "privacy of text": {"privacy": "yes"},
    "negative epsilon": {"privacy": {"epsilon": -1}},
    "unknown unit": {"privacy": {"unit": "person"}},
    "no events": {"privacy": {"events": None}},
    "an unknown event": {"privacy": {"events": [{"type": "Rumour"}]}},
    "effect of numbers": {"privacy": {"effect": 5}},
    "public numbers": {"privacy": {"public": [5]}},
    "less epsilon than its events": {"privacy": {"epsilon": 0.1}},
}


@pytest.mark.parametrize("changes", FIELDS.values(), ids=FIELDS.keys())
def test_sealed_files_with_impossible_fields_are_refused(saved, changes):
    """The checksum is no secret: fields are checked for themselves."""
    reseal(saved, **changes)
    with pytest.raises(fc.FileError, match=r"sketch\.npz"):
        fc.SketchResult.load(saved)


@pytest.mark.parametrize("field", ["layout", "scale", "table_noise", "records", "sites",
                                   "privacy", "cost", "score", "temperature", "label_names",
                                   "most_per_site", "label_noise",
                                   "confusion_noise"])  # fmt: skip
def test_a_missing_field_is_an_error(saved, field):
    parts = parts_of(saved)
    header = json.loads(parts["header"].tobytes())
    del header[field]
    sealed(header, {name: parts[name] for name in ("table", "labels")}, saved)
    with pytest.raises(fc.FileError):
        fc.SketchResult.load(saved)


def test_numbers_of_groups_cost_no_memory_before_they_are_checked(saved):
    """A file of a few bytes must not make the reader count to a billion."""
    reseal(saved, layout={"groups": [0, 1, 2, 1_000_000]})
    tracemalloc.start()
    try:
        with pytest.raises(fc.FileError):
            fc.SketchResult.load(saved)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


ARRAYS = {
    "transposed": lambda t: t.T if t.ndim > 1 else t[:, None],
    "a row less": lambda t: t[:-1],
    "flat": lambda t: t.ravel() if t.ndim > 1 else t[None],
    "floats": lambda t: t.astype(float),
    "unsigned": lambda t: np.abs(t).astype(np.uint32),
    "truths": lambda t: t > 0,
    "complex": lambda t: t.astype(complex),
    "dates": lambda t: t.astype("M8[s]"),
}


@pytest.mark.parametrize("name", ["table", "labels"])
@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS.keys())
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_sealed_files_with_impossible_arrays_are_refused(saved, name, change):
    reseal(saved, {name: np.array(change(parts_of(saved)[name]))})
    with pytest.raises(fc.FileError):
        fc.SketchResult.load(saved)


def rebuilt(path, **parts):
    """The archive with some members replaced by bytes, or left out (None)."""
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    for name, data in parts.items():
        members[f"{name}.npy"] = data
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if data is not None:
                archive.writestr(name, data)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_header(text):
    raw = text.encode()
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw


def claims(shape, kind="<i8"):
    return npy_header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n")


@pytest.mark.parametrize("name", PARTS)
def test_an_array_less_is_an_error(saved, name):
    rebuilt(saved, **{name: None})
    with pytest.raises(fc.FileError):
        fc.SketchResult.load(saved)


STRANGE = {
    "text": npy(np.array(["a", "b"])),
    "records": npy(np.zeros(3, dtype=[("a", "i4"), ("b", "i4")])),
    "NaN": npy(np.full((4, 8), np.nan)),
    "no array": b"hello",
    "nothing": b"",
    "a header without data": claims((4, 8)),
    "petabytes": claims((2**50,)),
    "gigabytes": claims((2**36,)),
    "beyond 64 bits": claims((2**62, 2**62)),
    "a negative shape": claims((-1,)),
    "an open bracket": npy_header("{'descr': "),
    "open brackets": npy_header("(" * 9000),
    "many signs": npy_header("-" * 9000 + "1"),
    "an open string": npy_header("'''"),
    "python 2": npy_header("{'descr': '<i8', 'fortran_order': False, 'shape': (4L, 8L), }\n"),
    "objects": claims((1,), "|O"),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE.keys())
def test_members_that_are_no_arrays_of_ours_are_refused(saved, name, data):
    rebuilt(saved, **{name: data})
    with pytest.raises(fc.FileError, match=r"sketch\.npz"):
        fc.SketchResult.load(saved)


def test_a_pickle_is_never_opened(saved):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was executed",))

    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb()
    rebuilt(saved, table=npy(bomb))
    with pytest.raises(fc.FileError):
        fc.SketchResult.load(saved)


def test_what_unpacks_to_too_much_is_refused_before_unpacking(saved, monkeypatch):
    rebuilt(saved, table=npy(np.zeros(20_000)))
    assert os.path.getsize(saved) < 20_000
    unpacked = []
    read = Archive.read
    monkeypatch.setattr(
        Archive, "read", lambda a, m: unpacked.append(m.info.filename) or read(a, m)
    )
    with pytest.raises(fc.FileError):
        fc.SketchResult.load(saved)
    assert "header.npy" in unpacked
    assert "table.npy" not in unpacked


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_damage_inside_a_compressed_member_is_one_clear_error(kinds, saved, method):
    with zipfile.ZipFile(saved) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    with zipfile.ZipFile(saved, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    data, refused = bytearray(saved.read_bytes()), 0
    at = data.find(b"table.npy") + 45
    for k in range(at, at + 25):
        broken = bytearray(data)
        broken[k] ^= 255
        saved.write_bytes(broken)
        try:
            again = fc.SketchResult.load(saved)
        except fc.FileError:
            refused += 1
        else:  # bits that the compression does not use
            assert differences(kinds["private"], again) == []
    assert refused > 20


def foreign(path):
    np.savez(path, probs=np.ones((2, 2)))


def empty_archive(path):
    with zipfile.ZipFile(path, "w"):
        pass


FOREIGN = {
    "another npz": foreign,
    "an empty archive": empty_archive,
    "one array": lambda p: p.write_bytes(npy(np.arange(3))),
    "text": lambda p: p.write_text("hello", encoding="utf-8"),
    "a calibration": lambda p: p.write_text('{"schema": "fedcover/calibration"}', encoding="utf-8"),
    "a folder": lambda p: p.mkdir(),
    "nothing": lambda p: None,
}


@pytest.mark.parametrize("write", FOREIGN.values(), ids=FOREIGN.keys())
def test_other_files_are_refused_by_name(path, write):
    write(path)
    with pytest.raises(fc.FileError, match=r"sketch\.npz"):
        fc.SketchResult.load(path)


@pytest.mark.parametrize("path", [None, 5, b"\xff", "a\0b", ["x"]], ids=repr)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(fc.FileError):
        fc.SketchResult.load(path)


def test_a_file_that_cannot_be_written_is_one_clear_error(kinds, tmp_path):
    with pytest.raises(fc.FedcoverError):
        kinds["exact"].save(tmp_path / "missing" / "x.npz")


# ---------------------------------------------------------------- small enough to send


RUNS = ((SKETCH(), None), (SKETCH(groups=np.arange(1000) // 10), budget(8.0)))


@pytest.fixture(scope="module")
def thousand():
    """40,000 records of 1000 labels at 10 sites, as in the paper's largest experiment."""
    return powers(np.random.default_rng(0), [4000] * 10, np.linspace(0.5, 2, 1000))


def test_a_sketch_of_1000_labels_is_a_small_file(thousand, path):
    for method, privacy in RUNS:
        fc.collect(thousand, method, privacy).save(path)
        assert path.stat().st_size < 1_000_000


def test_what_a_site_sends_for_1000_labels(thousand):
    """On the wire, the query too; without noise by the records, with noise whatever they are."""
    rng = np.random.default_rng(1)
    big = fc.Site("big", rng.random(100_000), rng.integers(0, 1000, 100_000), n_classes=1000)
    for method, privacy in RUNS:
        names = tuple(s.name for s in thousand)
        task = Task(names, 1000, privacy=privacy, sizes=(4000,) * 10)
        asked = next(method.server(task))
        query = (asked.queries if hasattr(asked, "queries") else asked)[names[0]]
        assert len(wire.encode(query)) < 100_000
        sent = [wire.encode(method.answer(query, site)) for site in (thousand[0], big)]
        if privacy is None:
            assert len(sent[0]) < 30_000
            assert len(sent[1]) < 500_000
        else:
            assert len(sent[0]) == len(sent[1]) < 8 * (100 * 1840 + 1000) + 500
        for data, site in zip(sent, (thousand[0], big), strict=True):
            assert wire.decode(data).arrays.keys() == method.answer(query, site).arrays.keys()
