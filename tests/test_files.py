"""Site files: what is read, and what is refused."""

import io

import numpy as np
import pytest

import fedcover as fc
from fedcover._io.files import read_outputs

PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
LABELS = np.array([0, 1, 2])


def write_csv(path, header="ant,bee,cat,label,id", rows=None):
    rows = rows or ["0.7,0.2,0.1,ant,r1", "0.1,0.8,0.1,bee,r2", "0.25,0.25,0.5,cat,r3"]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def write_parquet(path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(("ant", "bee", "cat"), PROBS.T, strict=True))
    table = {**columns, "label": ["ant", "bee", "cat"], "id": ["r1", "r2", "r3"]}
    parquet.write_table(pyarrow.table(table), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_carry_names_labels_and_ids(tmp_path, suffix):
    write = write_csv if suffix == ".csv" else write_parquet
    table = read_outputs(write(tmp_path / f"site-mercy{suffix}"))
    assert np.allclose(table.probs, PROBS)
    assert table.labels.tolist() == [0, 1, 2]
    assert table.label_names == ("ant", "bee", "cat")
    assert table.ids == ("r1", "r2", "r3")


def test_npz_with_logits_applies_the_temperature(tmp_path):
    path = tmp_path / "site-mercy.npz"
    np.savez(path, logits=3 * np.log(PROBS), labels=LABELS, extra=np.zeros(2))
    table = read_outputs(path, temperature=3.0)
    assert np.allclose(table.probs, PROBS)
    site = fc.Site.from_file(path, temperature=3.0, seed=0)
    assert (site.name, site.temperature, len(site)) == ("mercy", 3.0, 3)


def test_the_three_formats_give_one_site(tmp_path):
    np.savez(tmp_path / "site-x.npz", probs=PROBS, labels=LABELS, label_names=["ant", "bee", "cat"])
    paths = [
        tmp_path / "site-x.npz",
        write_csv(tmp_path / "site-x.csv"),
        write_parquet(tmp_path / "site-x.parquet"),
    ]
    sites = [fc.Site.from_file(p, seed=5) for p in paths]
    for site in sites[1:]:
        assert np.array_equal(site.scores, sites[0].scores)
        assert site.label_names == sites[0].label_names


def test_label_counts_are_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, probs=PROBS, labels=LABELS, label_counts=[10, 0, 90])
    assert fc.Site.from_file(path).label_counts.tolist() == [10, 0, 90]


def test_class_numbers_and_numbered_columns(tmp_path):
    rows = ["0.7,0.2,0.1,2", "0.1,0.8,0.1,0"]
    by_number = read_outputs(write_csv(tmp_path / "a.csv", "ant,bee,cat,label", rows))
    assert by_number.labels.tolist() == [2, 0]
    rows = ["0.7,0.2,0.1,1", "0.1,0.8,0.1,3"]  # classes called 1, 2, 3: the name counts
    by_name = read_outputs(write_csv(tmp_path / "b.csv", "1,2,3,label", rows))
    assert by_name.labels.tolist() == [0, 2]


def test_csv_logits_need_to_be_said(tmp_path):
    rows = ["2,0,-1,ant", "0,5,0,bee"]
    path = write_csv(tmp_path / "a.csv", "ant,bee,cat,label", rows)
    with pytest.raises(fc.FedcoverError, match=r"row 0 .*logits"):
        read_outputs(path)
    assert np.allclose(read_outputs(path, logits=True).probs.sum(axis=1), 1)


def test_temperature_with_probabilities_is_refused(tmp_path):
    with pytest.raises(fc.FedcoverError, match="temperature"):
        read_outputs(write_csv(tmp_path / "a.csv"), temperature=2.0)


def npz(**arrays):
    def write(path):
        np.savez(path, **arrays)

    return write


def text(content, mode="w"):
    def write(path):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def npy_bytes():
    stream = io.BytesIO()
    np.save(stream, PROBS)
    return stream.getvalue()


BAD = {
    "missing": ("a.npz", lambda path: None, "does not exist"),
    "other type": ("a.pkl", text("x"), r"\.npz, \.csv, \.parquet"),
    "not a zip": ("a.npz", text("hello"), "cannot be read"),
    "cut zip": ("a.npz", text(b"PK\x03\x04" + bytes(40)), "cannot be read"),
    "pickled": ("a.npz", npz(probs=np.array([None, {}], dtype=object)), "cannot be read"),
    "no outputs": ("a.npz", npz(labels=LABELS, x=LABELS), "neither 'probs' nor 'logits', but .*x"),
    "empty npz": ("a.npz", npz(), "no array"),
    "npy": ("a.npz", text(npy_bytes()), "single array"),
    "object labels": (
        "a.npz",
        npz(probs=PROBS, labels=LABELS.astype(object)),
        r"labels\.astype\(int\)",
    ),
    "unnamed text labels": (
        "a.npz",
        npz(probs=PROBS, labels=["ant", "bee", "cat"]),
        "Add label_names",
    ),
    "huge label": ("a.csv", text("ant,bee,label\n.5,.5,99999999999999999999999\n"), "not a class"),
    "both": ("a.npz", npz(probs=PROBS, logits=PROBS, labels=LABELS), "both"),
    "no labels": ("a.npz", npz(probs=PROBS), "no labels"),
    "short labels": ("a.npz", npz(probs=PROBS, labels=[0]), "1 entries for 3"),
    "label range": ("a.npz", npz(probs=PROBS, labels=[0, 1, 3]), r"labels\[2\] is 3"),
    "not normal": ("a.npz", npz(probs=PROBS * 2, labels=LABELS), "row 0 sums to 2"),
    "nan": ("a.npz", npz(probs=PROBS * np.nan, labels=LABELS), "NaN"),
    "names": ("a.npz", npz(probs=PROBS, labels=LABELS, label_names=["a", "a", "b"]), "different"),
    "counts": ("a.npz", npz(probs=PROBS, labels=LABELS, label_counts=[1, -1, 1]), "label_counts"),
    "empty csv": ("a.csv", text(""), "columns none"),
    "header only": ("a.csv", text("ant,bee,label\n"), r"shape \(0, 2\)"),
    "ragged csv": ("a.csv", text("ant,bee,label\n0.5,0.5,ant\n0.5\n"), "cannot be read"),
    "words in csv": ("a.csv", text("ant,bee,label\nx,0.5,ant\n"), "cannot be read"),
    "twice named": ("a.csv", text("ant,ant,label\n0.5,0.5,ant\n"), "columns ant, ant"),
    "pandas index": ("a.csv", text(",ant,bee,label\n0,.5,.5,ant\n"), "row index.*index=False"),
    "unnamed index": ("a.csv", text("Unnamed: 0,ant,bee\n0,.5,.5\n"), "row index.*index=False"),
    "named index": ("a.csv", text("index,ant,bee\n0,.5,.5\n1,.5,.5\n"), "row index.*index=False"),
    "comma at the end": ("a.csv", text("ant,bee,label,\n.5,.5,ant,\n"), "column 4 has no name"),
    "extra number": (
        "a.csv",
        text("ant,bee,age,label\n.5,.5,63,ant\n"),
        "sums to 64; the columns taken as classes are ant, bee, age; age: values.*'age'",
    ),
    "numeric label": (
        "a.csv",
        text("ant,bee,Label\n.5,.5,1\n"),
        "taken as classes are ant, bee, Label.*must be called label",
    ),
    "semicolons": ("a.csv", text("ant;bee;label\n0,5;0,5;ant\n"), "comma"),
    "tabs": ("a.csv", text("ant\tbee\tlabel\n.5\t.5\tant\n"), "a tab.*comma"),
    "Label": ("a.csv", text("ant,bee,Label\n.5,.5,ant\n"), "'Label'.*must be called label"),
    "labels": ("a.csv", text("ant,bee,labels\n.5,.5,ant\n"), "'labels'.*must be called label"),
    "y": ("a.csv", text("ant,bee,y\n.5,.5,ant\n"), "'y' holds 'ant'.*must be called label"),
    "ID": ("a.csv", text("ID,ant,bee\nr1,.5,.5\n"), "'ID' holds 'r1'.*must be called id"),
    "patient_id": ("a.csv", text("patient_id,ant,bee\np,.5,.5\n"), "must be called id"),
    "other text": ("a.csv", text("sex,ant,bee\nm,.5,.5\n"), "Remove the column 'sex'"),
    "unknown label": ("a.csv", text("ant,bee,label\n0.5,0.5,fly\n"), "'fly' is not a class"),
    "binary csv": ("a.csv", text(bytes(range(256))), "cannot be read"),
    "no parquet": ("a.parquet", text("PAR1 nothing"), "cannot be read"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_files_get_one_clear_error(tmp_path, case):
    name, write, message = case
    path = tmp_path / name
    write(path)
    with pytest.raises(fc.FedcoverError, match=message) as caught:
        fc.Site.from_file(path)
    assert "Allowed:" in str(caught.value)


def parquet(**columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write(path):
        parquet.write_table(pyarrow.table(columns), path)
        return path

    return write


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"__index_level_0__": [3, 4]}, "row index.*index=False"),
        ({"index": [0, 1]}, "row index.*index=False"),
        ({"Label": ["ant", "bee"]}, "'Label' holds 'ant'.*must be called label"),
        ({"patient_id": ["p1", "p2"]}, "'patient_id' holds 'p1'.*must be called id"),
        ({"age": [63, 20]}, "taken as classes are ant, bee, age"),
        ({"label": ["ant", None]}, "'None' is not a class"),
    ],
    ids=repr,
)
def test_parquet_columns_that_are_no_classes(tmp_path, extra, message):
    path = parquet(ant=[0.5, 0.5], bee=[0.5, 0.5], **extra)(tmp_path / "a.parquet")
    with pytest.raises(fc.FedcoverError, match=message):
        read_outputs(path)


def test_class_numbers_that_went_through_floats(tmp_path):
    rows = ["0.7,0.2,0.1,2.0", "0.1,0.8,0.1,0.0"]
    table = read_outputs(write_csv(tmp_path / "a.csv", "ant,bee,cat,label", rows))
    assert table.labels.tolist() == [2, 0]
    path = parquet(ant=[0.5, 0.5], bee=[0.5, 0.5], label=[1.0, 0.0])(tmp_path / "a.parquet")
    assert read_outputs(path).labels.tolist() == [1, 0]


def test_text_labels_in_npz_go_by_the_names(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, probs=PROBS, labels=["cat", "ant", "bee"], label_names=["ant", "bee", "cat"])
    assert read_outputs(path).labels.tolist() == [2, 0, 1]
    np.savez(path, probs=PROBS, labels=["cat", "ant", "bee"])
    assert read_outputs(path, label_names=("ant", "bee", "cat")).labels.tolist() == [2, 0, 1]


@pytest.mark.parametrize("bad", ["csv", "npz", "objects"])
def test_bad_labels_do_not_matter_where_labels_are_not_asked_for(tmp_path, bad):
    if bad == "csv":
        path = write_csv(tmp_path / "a.csv", "ant,bee,label", [".5,.5,fly"])
    else:
        path = tmp_path / "a.npz"
        np.savez(path, probs=PROBS, labels=np.array([7], dtype=object if bad == "objects" else int))
    with pytest.raises(fc.FedcoverError):
        read_outputs(path)
    table = read_outputs(path, labels=False)
    assert table.labels is None
    with pytest.raises(fc.FileError, match="no labels"):
        table.require_labels()


def test_logits_asked_of_probabilities_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, probs=PROBS, labels=LABELS)
    with pytest.raises(fc.FileError, match=r"'probs'.*--logits"):
        read_outputs(path, logits=True)
    with pytest.warns(fc.FedcoverWarning, match="look like probabilities already"):
        read_outputs(write_csv(tmp_path / "a.csv"), logits=True)


def test_whole_numbers_among_logits_are_no_class(tmp_path):
    rows = ["1.5,-.5,101", "0.2,3.5,102"]
    path = write_csv(tmp_path / "a.csv", "ant,bee,patient_id", rows)
    with pytest.raises(fc.FileError, match=r"'patient_id'.*must be called id"):
        read_outputs(path, logits=True)
    path = write_csv(tmp_path / "b.csv", "yes,y", ["1.5,2.5", "0.5,1"])  # a class may be called y
    assert read_outputs(path, logits=True).probs.shape == (2, 2)


@pytest.mark.parametrize(
    ("offset", "bits", "why"),
    [(6, 0x01, "RuntimeError"), (6, 0x41, "NotImplementedError"), (8, 0x63, "NotImplementedError")],
    ids=["encrypted", "strongly encrypted", "unknown compression"],
)
def test_patched_archives_get_one_clear_error(tmp_path, offset, bits, why):
    path = tmp_path / "a.npz"
    np.savez(path, probs=PROBS, labels=LABELS)
    data = bytearray(path.read_bytes())
    for header, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = data.find(header)
        while at >= 0:
            data[at + offset + shift] |= bits
            at = data.find(header, at + 4)
    path.write_bytes(bytes(data))
    with pytest.raises(fc.FileError, match=f"cannot be read .{why}"):
        read_outputs(path)
