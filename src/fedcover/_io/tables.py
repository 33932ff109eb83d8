"""Csv and parquet files of model outputs: which columns are classes, and which are not."""

from __future__ import annotations

import csv
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover._io.archives import LEAST_ROOM, MOST_TIMES
from fedcover._io.cells import text_of
from fedcover._io.facts import FIELDS_THAT_CANNOT_BE
from fedcover.checks import ROW_SUM_TOLERANCE
from fedcover.errors import FileError
from fedcover.inputs import listed

RESERVED = ("label", "id")
LIKE_LABEL = {"label", "labels", "y", "y_true", "target", "truth", "true_label", "class"}
LIKE_ID = {"id", "ids", "uid", "uuid", "index", "patient", "patient_id", "record_id", "sample_id"}
ROW_INDEX = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__")


def read_csv(path: Path, want: tuple[str, ...]) -> dict[str, Any]:
    """The class columns as `probs` and `label_names`, and those of `label` and `id` wanted."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = [text_of(h.strip()) for h in next(csv.reader(file), [])]
        classes, extra = _columns(path, header, want)
        try:
            probs = _csv_columns(path, classes)
        except ValueError as error:
            _find_text(path, header, classes)
            raise error from None
        texts = {name: _csv_texts(path, at) for name, at in extra.items()}
    except FileError:
        raise
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise broken(path, error) from None
    return _tabular(path, probs, [header[k] for k in classes], texts)


def read_parquet(path: Path, want: tuple[str, ...]) -> dict[str, Any]:
    """As `read_csv`; needs pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise FileError(
            f"{path} needs pyarrow, which is not installed",
            allowed=".npz and .csv without it",
            fix="pip install 'fedcover[parquet]'",
        ) from None
    try:
        # Texts are read as the dictionary that they are stored as: a long one stands there once.
        with parquet.ParquetFile(path) as file:
            of_text = [field.name for field in file.schema_arrow if _is_text(field.type)]
            # A list in a cell may be of any length, whatever the number of rows is.
            if any(pyarrow.types.is_nested(field.type) for field in file.schema_arrow):
                raise ValueError("a column of lists")
        with parquet.ParquetFile(path, read_dictionary=of_text) as file:
            _plausible(file.metadata, room_of(path))
            table = file.read()
        header = list(table.column_names)
        classes, extra = _columns(path, header, want)
        columns = []
        for k in classes:
            try:
                columns.append(_numbers(table.column(k)))
            except (ValueError, TypeError):
                first = table.column(k)[0].as_py() if len(table) else ""
                raise _not_numbers(path, header[k], first, 0) from None
        texts = {
            name: _short_texts(path, _parquet_texts(table.column(at))) for name, at in extra.items()
        }
    except FileError:
        raise
    except (OSError, pyarrow.ArrowException, *FIELDS_THAT_CANNOT_BE) as error:
        raise broken(path, error) from None
    return _tabular(path, np.column_stack(columns), [header[k] for k in classes], texts)


def room_of(path: Path) -> int:
    """Bytes that the arrays of a file may have in memory."""
    return max(LEAST_ROOM, MOST_TIMES * path.stat().st_size)


def _plausible(metadata: Any, room: int) -> None:
    """Refuses a file that says it has more than it may."""
    # Not what a column says of itself: pyarrow ends the process where that contradicts itself, and
    # raises an exception for it only later, when the file is read.
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    numbers = 8 * rows * metadata.num_columns
    if max(numbers, sum(group.total_byte_size for group in groups)) > room:
        raise ValueError(f"{metadata.num_rows} rows of {metadata.num_columns} columns")


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "binary", "large_binary")


def _numbers(column: Any) -> NDArray[np.float64]:
    """The numbers of a column; text that is one is one."""
    if not str(column.type).startswith("dictionary"):
        return np.asarray(column, dtype=np.float64)
    parts = []
    for chunk in column.chunks:
        known = np.array([float(text) for text in chunk.dictionary.to_pylist()])
        parts.append(known[np.asarray(chunk.indices.fill_null(-1))])
        if chunk.null_count:
            raise ValueError("a number is missing")
    return np.concatenate(parts) if parts else np.empty(0)


def _parquet_texts(column: Any) -> list[str]:
    """The texts of a column; rows with the same text share it."""
    out: list[str] = []
    for chunk in column.chunks:
        if not hasattr(chunk, "dictionary"):
            out += [str(value) for value in chunk.to_pylist()]
            continue
        known = [str(value) for value in chunk.dictionary.to_pylist()]
        out += [str(None) if k is None else known[k] for k in chunk.indices.to_pylist()]
    return out


def explain(names: list[str], table: NDArray[Any]) -> tuple[str, str]:
    """Which columns were taken as classes, and what to do with one that does not look like one."""
    taken = f"the columns taken as classes are {listed(names)}"
    with np.errstate(invalid="ignore"):
        good = (table >= 0) & (table <= 1 + ROW_SUM_TOLERANCE)
    odd = [name for k, name in enumerate(names) if not good[:, k].all()]
    if odd and 2 * len(odd) < len(names):
        return f"{taken}; {listed(odd, 6)}: values outside [0, 1]", _rename(odd[0])
    telling = [name for name in names if name.casefold() in LIKE_LABEL | LIKE_ID]
    return taken, _rename(telling[0]) if telling else ""


def refuse_disguised(path: Path, names: list[str], table: NDArray[Any]) -> None:
    """Among logits, which may be any numbers: whole numbers in a column named as labels or ids."""
    whole = (table == np.floor(table)).all(axis=0)
    for name, is_whole in zip(names, whole, strict=True):
        if is_whole and not whole.all() and name.casefold() in LIKE_LABEL | LIKE_ID:
            raise FileError(
                f"{path}: column {name!r} holds whole numbers among logits",
                allowed="one column per class, label, id",
                fix=_rename(name),
            )


def broken(path: Path, error: BaseException) -> FileError:
    """The error for a file that is not what its name says."""
    return FileError(
        f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        allowed=f"a whole {path.suffix} file of model outputs",
        fix="Write it again; see the documentation of fedcover._io.files for the layout",
    )


def _csv_texts(path: Path, at: int) -> list[str]:
    """A column of texts, as a list: an array would make room for the longest in every row."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        next(rows)
        return _short_texts(path, [text_of(row[at]) for row in rows if row])


def _short_texts(path: Path, texts: list[str]) -> list[str]:
    longest = max(map(len, texts), default=0)
    if 4 * longest * len(texts) > room_of(path):
        raise ValueError(f"a text of {longest} characters in a column of {len(texts)} rows")
    return texts


def _csv_columns(path: Path, columns: list[int]) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a file without rows is refused later
        return np.loadtxt(
            path,
            dtype=float,
            comments=None,
            delimiter=",",
            skiprows=1,
            usecols=columns,
            ndmin=2,
            encoding="utf-8-sig",
            quotechar='"',
        )


def _columns(
    path: Path, header: list[str], want: tuple[str, ...]
) -> tuple[list[int], dict[str, int]]:
    """Positions of the class columns, and of those columns of `want` that exist."""
    classes = [k for k, name in enumerate(header) if name not in RESERVED]
    separator = next((s for s in ";\t" if len(header) == 1 and s in header[0]), "")
    if separator:
        raise FileError(
            f"{path} separates its columns by {'a tab' if separator != ';' else repr(separator)}",
            allowed="a comma as separator, and a point in numbers",
            fix="Save it with commas; in pandas, to_csv(path, sep=',', decimal='.', index=False)",
        )
    for k, name in enumerate(header):
        if ROW_INDEX.fullmatch(name) or (not name and k == 0):
            raise _row_index(path, name)
        if not name:
            raise FileError(
                f"{path}: column {k + 1} has no name",
                allowed="one named column per class, label, id",
                fix="Name the column, or remove the comma at the end of every line",
            )
    if len(classes) < 2 or len(set(header)) < len(header):
        raise FileError(
            f"{path} has the columns {listed(header, 8) or 'none'}",
            allowed="one column per class (two or more, all named differently), label, id",
            fix="Add a header row, and remove columns that are not classes",
        )
    return classes, {name: header.index(name) for name in want if name in header}


def _find_text(path: Path, header: list[str], classes: list[int]) -> None:
    """Refuse the first entry of a class column that is no number, if there is one."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        next(rows)
        for number, row in enumerate(rows):
            for k in classes:
                try:
                    float(row[k] if k < len(row) else "0")  # short rows are another matter
                except ValueError:
                    raise _not_numbers(path, header[k], row[k], number) from None


def _not_numbers(path: Path, name: str, value: Any, row: int) -> FileError:
    return FileError(
        f"{path} cannot be read: column {name!r} holds {str(value)[:60]!r} in row {row}, "
        "which is no number",
        allowed="one column of numbers per class; text only in the columns label and id",
        fix=_rename(name),
    )


def _rename(name: str) -> str:
    word = name.casefold()
    if word in LIKE_LABEL:
        return "The column of the true labels must be called label"
    if word in LIKE_ID or word.endswith(("_id", " id")):
        return "The column that names the records must be called id"
    return (
        f"Remove the column {name!r} if it is no class; true labels must be in a column called "
        "label, names of records in one called id"
    )


def _row_index(path: Path, name: str) -> FileError:
    return FileError(
        f"{path}: column {name!r} looks like a row index",
        allowed="one column per class, label, id",
        fix="Save with index=False",
    )


def _tabular(
    path: Path, probs: NDArray[Any], label_names: list[str], texts: dict[str, list[str]]
) -> dict[str, Any]:
    for k, name in enumerate(label_names):
        counting = name.casefold() == "index" and len(probs) > 1
        if counting and np.array_equal(probs[:, k], np.arange(len(probs))):
            raise _row_index(path, name)
    out: dict[str, Any] = {"probs": probs, "label_names": label_names}
    if "label" in texts:
        out["labels"] = texts["label"]
    if "id" in texts:
        out["ids"] = texts["id"]
    return out
