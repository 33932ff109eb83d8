"""Small files that ask for much: written in a moment, and gigabytes for whoever believes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tests.fuzz import archives, files

GIB = 1 << 30


def sketch_of_zeros(path: Path) -> Path:
    """1 MB that unpacks to nearly a gigabyte of cells, 16 GiB once they are 64 bits and hashed."""
    header, arrays = files.sketch_parts()[0]
    parts = files.sealed_sketch(header, arrays)
    members = _members(parts)
    members["table"] = archives.Zeros("|i1", (GIB - (1 << 20),), GIB - (1 << 20))
    return _written(path, ".npz", archives.archive(members))


def sketch_of_many_bins(path: Path) -> Path:
    """A header that says what would be the largest table, and more labels than there may be."""
    header, arrays = files.sketch_parts()[1]
    header = {**header, "layout": {**header["layout"], "n_classes": 10**6}, "label_names": None}
    parts = files.sealed_sketch(header, arrays)
    members = _members(parts)
    shape = (10**6, 4)
    members["table"] = archives.Zeros("|i1", shape, 4 * 10**6)
    members["confusion"] = archives.Zeros("|i1", (10**6, 10**6), 16)
    return _written(path, ".npz", archives.archive(members))


def header_of_lists(path: Path) -> Path:
    """A header of nothing but empty lists: a gigabyte of them in 40 kB of file."""
    text = b'{"schema": "fedcover/sketch", "x": [' + b"[]," * (10**7) + b"[]]}"
    _, arrays = files.sketch_parts()[0]
    members = _members(arrays)
    members["header"] = archives.member(np.frombuffer(text, np.uint8))
    members["sha256"] = archives.member(np.zeros(32, np.uint8))
    return _written(path, ".npz", archives.archive(members))


def site_of_zeros(path: Path) -> Path:
    """1 MB that unpacks to a gigabyte of probabilities."""
    rows = GIB // 4 // 64
    labels = archives.member(np.zeros(rows, np.int8))
    members = {"probs": archives.Zeros("<f4", (rows, 64), GIB), "labels": labels}
    return _written(path, ".npz", archives.archive(members))


def site_that_says_so(path: Path) -> Path:
    """A few hundred bytes whose header says that they are 8 EiB."""
    probs = archives.head("<f8", (2**40, 2**20)) + bytes(64)
    return _written(path, ".npz", archives.archive({"probs": probs}))


def csv_of_one_long_label(path: Path) -> Path:
    """A label of 100,000 characters, and as many rows: 40 GB as an array of texts."""
    rows = ["a,b,label", "0.5,0.5," + "x" * 100_000, *["0.5,0.5,a"] * 100_000]
    return _written(path, ".csv", "\n".join(rows).encode())


def parquet_of_one_long_label(path: Path) -> Path:
    """The same in kilobytes: the label stands in a dictionary, once."""
    import pyarrow
    from pyarrow import parquet

    path = path.with_suffix(".parquet")
    half = np.full(10**6, 0.5)
    labels = pyarrow.DictionaryArray.from_arrays(np.zeros(10**6, np.int32), ["x" * 50_000])
    parquet.write_table(pyarrow.table({"a": half, "b": half, "label": labels}), path)
    return path


def parquet_of_long_numbers(path: Path) -> Path:
    """A class column that is no numbers but one long text, a million times."""
    import pyarrow
    from pyarrow import parquet

    path = path.with_suffix(".parquet")
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(10**6, np.int32), ["x" * 50_000])
    half, zeros = np.full(10**6, 0.5), np.zeros(10**6, np.int8)
    parquet.write_table(pyarrow.table({"a": half, "b": texts, "label": zeros}), path)
    return path


def parquet_of_one_long_list(path: Path) -> Path:
    """One row, in which a class column holds a list of a hundred million numbers."""
    import pyarrow
    from pyarrow import parquet

    path = path.with_suffix(".parquet")
    many = pyarrow.ListArray.from_arrays([0, 10**8], pyarrow.array(np.zeros(10**8)))
    table = pyarrow.table({"a": [0.5], "b": many, "label": [0]})
    parquet.write_table(table, path, compression="zstd")
    return path


def parquet_of_many_rows(path: Path) -> Path:
    """A hundred million equal rows, in some kilobytes."""
    import pyarrow
    from pyarrow import parquet

    path = path.with_suffix(".parquet")
    half = pyarrow.table({"a": np.full(10**6, 0.5), "b": np.full(10**6, 0.5)})
    with parquet.ParquetWriter(path, half.schema, compression="zstd") as file:
        for _ in range(100):
            file.write_table(half)
    return path


def calibration_of_lists(path: Path) -> Path:
    """JSON of empty lists, thirty times as much in memory."""
    text = b'{"schema": "fedcover/calibration", "version": 2, "calibration": ['
    return _written(path, ".json", text + b"[]," * 10**7 + b"[]]}")


def _members(arrays: Mapping[str, archives.Array]) -> dict[str, bytes | archives.Zeros]:
    return {name: archives.member(array) for name, array in arrays.items()}


def _written(path: Path, ending: str, data: bytes) -> Path:
    path = path.with_suffix(ending)
    path.write_bytes(data)
    return path


SKETCHES: tuple[Callable[[Path], Path], ...] = (
    sketch_of_zeros,
    sketch_of_many_bins,
    header_of_lists,
)
SITES: tuple[Callable[[Path], Path], ...] = (
    site_of_zeros,
    site_that_says_so,
    csv_of_one_long_label,
    parquet_of_one_long_label,
    parquet_of_long_numbers,
    parquet_of_one_long_list,
    parquet_of_many_rows,
)
