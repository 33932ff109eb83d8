"""What users hand over, as arrays: numbers, labels as numbers or names, and names of classes.

The checks of values are in `fedcover.checks`, which offers the functions of this file too.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Sequence
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover.errors import FedcoverError

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]

LONGEST_NAME = 1000
"""Characters of the name of a class."""

STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories of characters that are not seen but do something."""

JOINERS = "\u200c\u200d"

WHOLE_TEXT = re.compile(r"(\d+)(?:\.0*)?")
"""A class number as text; a table that went through floats says 1.0 for 1."""


def array(values: Any, what: str) -> NDArray[Any]:
    """A regular array of real numbers or text."""
    result = _any_array(values, what)
    if result.dtype.kind not in "biufUS":
        raise _wrong_type(result, what)
    return result


def as_float(values: NDArray[Any], what: str) -> Floats:
    """The same numbers as float32 or float64, copied only where they were neither."""
    if values.dtype in (np.float32, np.float64):
        return values
    if values.dtype.kind not in "iufb":
        raise _wrong_type(values, what)
    with np.errstate(over="ignore"):  # extended precision beyond float64 becomes infinite
        return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


def labels(
    values: ArrayLike,
    n_classes: int,
    what: str = "labels",
    n: int | None = None,
    names: Sequence[str] | None = None,
) -> Ints:
    """A vector of class numbers in 0..n_classes-1, as long as the data it belongs to.

    Parameters
    ----------
    values
        (n,) class numbers (integers, whole floats, booleans), or names of classes: an array, a
        list, or a column of a table.
    n_classes
        Number of classes.
    what
        How errors call the values.
    n
        How many there must be.
    names
        (n_classes,) names of the classes; text is read by them. Where no name is a number, text
        such as "2" or "2.0" is class number 2.
    """
    y = _any_array(values, what)
    if y.ndim != 1:
        raise FedcoverError(
            f"{what} has shape {y.shape}",
            allowed="a vector",
            fix="Give one label per record; of one-hot rows, take rows.argmax(axis=1)",
        )
    if n is not None and len(y) != n:
        raise FedcoverError(
            f"{what} has {len(y)} entries for {n} records",
            allowed="one label per record",
            fix="Check that both come from the same records in the same order",
        )
    if y.dtype.kind == "O":
        y = _plain(y, what, n_classes)
    if y.dtype.kind in "UST":
        return _by_name(y, n_classes, what, names)
    if y.dtype.kind not in "biuf":
        raise _wrong_type(y, what)
    if y.dtype.kind == "f":
        _refuse(~(np.isfinite(y) & (y == np.floor(y))), y, what, n_classes)
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    _refuse((y < 0) | (y >= n_classes), y, what, n_classes)
    return y.astype(np.int64, copy=False)


def column_names(values: Any) -> tuple[str, ...] | None:
    """Names of the columns of a table, such as a pandas or polars DataFrame, or None.

    None where `values` is no table or its columns are only numbered (0, 1, 2, or column_0 and so
    on). Class probabilities in a table with named columns name their classes: whoever keeps the
    names at calibration can refuse a table with the columns in another order later.
    """
    columns = getattr(values, "columns", None)
    if columns is None or isinstance(values, type) or callable(columns):
        return None
    try:
        found = list(columns)
    except TypeError:
        return None
    if not found or not all(isinstance(name, str) for name in found):
        return None
    for prefix in ("", "column_"):
        if found == [f"{prefix}{k}" for k in range(len(found))]:
            return None
    return tuple(found)


def names(
    given: tuple[str, ...] | list[str] | None, n_classes: int, what: str
) -> tuple[str, ...] | None:
    """Names of the classes: as many as classes, all different."""
    if given is None:
        return None
    if not isinstance(given, (tuple, list)):
        raise FedcoverError(
            f"{what} is {given!r}", allowed=f"a list of {n_classes} names", fix="Make it a list"
        )
    texts = tuple(str(g) for g in given)
    if len(texts) != n_classes or len(set(texts)) != n_classes:
        raise FedcoverError(
            f"{what} has {len(texts)} names, {len(set(texts))} of them different",
            allowed=f"{n_classes} different names",
            fix="Give one name per probability column, in their order",
        )
    for text in texts:
        if len(text) > LONGEST_NAME or not is_plain(text):
            raise FedcoverError(
                f"{what} has the name {shown(text)}",
                allowed=f"at most {LONGEST_NAME} characters that can be seen",
                fix="Rename the class: line breaks and marks that steer a screen stand in no name",
            )
    return texts


def is_plain(text: str) -> bool:
    """Whether a text shows what it says, on a screen, in a page and in a file.

    Control characters move cursors, format characters turn the direction of writing. The two that
    join and part letters belong to several scripts.
    """
    return text.isprintable() or not any(category(c) in STEERING and c not in JOINERS for c in text)


def shown(value: Any) -> str:
    """A value in a message: as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer too long for Python to write
        return f"a {type(value).__name__} of very many digits"
    return text if len(text) <= 200 else f"{text[:100]} … {text[-40:]}"


def listed(texts: Sequence[str], most: int = 20) -> str:
    """Words in a row, those in the middle left out where there are too many."""
    if len(texts) > most:
        texts = [*texts[: most // 2], "…", *texts[-(most // 2) :]]
    return ", ".join(texts)


def _any_array(values: Any, what: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise FedcoverError(
            f"{what} is a masked array",
            allowed="an array in which every entry counts",
            fix="Leave out the records with masked entries, or fill them with .filled(...)",
        )
    try:
        return np.asarray(values)
    except Exception as error:  # whatever the object's own conversion raises
        why = str(error).strip().partition("\n")[0][:200]
        ragged = isinstance(values, (list, tuple))
        raise FedcoverError(
            f"{what} is not an array ({type(values).__name__}: {why})",
            allowed="numbers in a regular array",
            fix="Check that all rows have the same length"
            if ragged
            else "Make it a NumPy array first; of a tensor, tensor.detach().cpu().numpy()",
        ) from error


def _wrong_type(values: NDArray[Any], what: str) -> FedcoverError:
    return FedcoverError(
        f"{what} has type {values.dtype}",
        allowed="real numbers",
        fix="Convert it first, for example with .astype(float); of a table give the class columns",
    )


def _plain(y: NDArray[Any], what: str, n_classes: int) -> NDArray[Any]:
    """Python objects as text or as numbers that fit into 64 bits, where they are all of a kind."""
    items = y.tolist()
    for k, item in enumerate(items):
        if item is None or type(item).__name__ in ("NAType", "NaTType") or _is_nan(item):
            raise FedcoverError(
                f"{what}[{k}] is missing ({item!r})",
                allowed="a label for every record",
                fix="Leave out the records without a label, in the probabilities too",
            )
    if all(isinstance(item, str) for item in items):
        return np.array(items, dtype=np.str_)
    for k, item in enumerate(items):
        if not _is_whole(item):
            raise FedcoverError(
                f"{what}[{k}] is {shown(item)}, a {type(item).__name__}",
                allowed=f"whole numbers from 0 to {n_classes - 1}, or names of classes",
                fix="Give all labels as class numbers, or all as text",
            )
        if not 0 <= item < n_classes:
            raise _out_of_range(what, k, item, n_classes)
    return np.array([int(item) for item in items], dtype=np.int64)


def _is_whole(item: Any) -> bool:
    if isinstance(item, (numbers.Integral, np.bool_)):
        return True
    return isinstance(item, (float, np.floating)) and bool(item == np.floor(item))


def _is_nan(item: Any) -> bool:
    return isinstance(item, (float, np.floating)) and math.isnan(item)


def _refuse(bad: NDArray[np.bool_], y: NDArray[Any], what: str, n_classes: int) -> None:
    if bad.any():
        k = int(np.argmax(bad))
        raise _out_of_range(what, k, y[k].item(), n_classes)


def _out_of_range(what: str, k: int, value: Any, n_classes: int) -> FedcoverError:
    return FedcoverError(
        f"{what}[{k}] is {f'{value:.6g}' if isinstance(value, float) else shown(value)}",
        allowed=f"whole numbers from 0 to {n_classes - 1}",
        fix="Number the classes from 0 in the order of the probability columns",
    )


def _by_name(y: NDArray[Any], n_classes: int, what: str, class_names: Sequence[str] | None) -> Ints:
    """Class numbers of labels given as text: by name, or as numbers where the names are none."""
    texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else str(t) for t in y.tolist()]
    if class_names is None:
        example = f" ({shown(texts[0])})" if texts else ""
        raise FedcoverError(
            f"{what} is text{example}, and the names of the classes are not known",
            allowed=f"whole numbers from 0 to {n_classes - 1}, or text with label_names",
            fix="Add label_names, the names of the probability columns in their order",
        )
    index = {name: k for k, name in enumerate(class_names)}
    numbered = not any(WHOLE_TEXT.fullmatch(name.strip().lstrip("-")) for name in index)
    out = np.empty(len(texts), dtype=np.int64)
    for k, text in enumerate(texts):
        found = index.get(text, index.get(text.strip()))
        whole = WHOLE_TEXT.fullmatch(text.strip()) if found is None else None
        if whole:
            found = _number(whole[1], n_classes) if numbered else index.get(whole[1])
        if found is None:
            numbers_too = f", or a class number from 0 to {n_classes - 1}" if numbered else ""
            raise FedcoverError(
                f"{what}: {shown(text.strip())} is not a class (record {k})",
                allowed=f"a class name ({listed(list(index), 8)}){numbers_too}",
                fix="Name the label as its probability column",
            )
        out[k] = found
    return out


def _number(digits: str, n_classes: int) -> int | None:
    short = digits.lstrip("0") or "0"
    if len(short) > len(str(n_classes)):  # also what is too long for Python to convert
        return None
    return int(short) if int(short) < n_classes else None
