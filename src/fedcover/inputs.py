"""What users hand over, as arrays: numbers, and labels as numbers or names.

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
    result = any_array(values, what)
    if result.dtype.kind == "O":
        return _numbers(result, values, what)
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
    names: Sequence[str | int] | None = None,
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
        such as "2" or "2.0" is class number 2. Where the names are whole numbers, so are the
        labels: 7 is the class called 7.
    """
    y = any_array(values, what)
    if y.ndim == 2 and y.shape[1] == 1:  # a table with one column
        y = y[:, 0]
    if y.ndim != 1:
        one_hot = y.ndim == 2 and y.shape[1] == n_classes
        raise FedcoverError(
            f"{what} has shape {y.shape}",
            allowed="one label for each record: shape (records,) or (records, 1)",
            fix="These look like one-hot rows: take rows.argmax(axis=1)"
            if one_hot
            else "Give one label per record",
        )
    if n is not None and len(y) != n:
        raise FedcoverError(
            f"{what} has {len(y)} entries for {n} records",
            allowed="one label per record",
            fix="Check that both come from the same records in the same order",
        )
    numbered = names if names and isinstance(names[0], int) else None
    if y.dtype.kind == "O":
        y = _plain(y, what, n_classes, numbered)
    if y.dtype.kind in "UST":
        return _by_name(y, n_classes, what, names)
    if y.dtype.kind not in "biuf":
        raise _wrong_type(y, what)
    if y.dtype.kind == "f":
        _refuse(~(np.isfinite(y) & (y == np.floor(y))), y, what, n_classes)
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    if numbered is not None:
        return _by_number(y, what, numbered)
    _refuse((y < 0) | (y >= n_classes), y, what, n_classes)
    return y.astype(np.int64, copy=False)


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


def listed(names: Sequence[str | int], most: int = 20) -> str:
    """Words in a row, those in the middle left out where there are too many."""
    texts = [str(name) for name in names]
    if len(texts) > most:
        texts = [*texts[: most // 2], "…", *texts[-(most // 2) :]]
    return ", ".join(texts)


def any_array(values: Any, what: str) -> NDArray[Any]:
    """An array of whatever kind; an error of ours where there is none."""
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
    kinds = {"U": "text", "S": "text", "T": "text", "c": "complex numbers",
             "M": "dates", "m": "durations"}  # fmt: skip
    found = kinds.get(values.dtype.kind, f"values of type {values.dtype}")
    example = f" ({shown(values.flat[0].item())})" if values.size and found == "text" else ""
    return FedcoverError(
        f"{what} holds {found}{example}",
        allowed="numbers",
        fix="Turn text into numbers with .astype(float)" if example else "Give plain numbers",
    )


def _numbers(values: NDArray[Any], given: Any, what: str) -> NDArray[np.float64]:
    """Python objects as numbers, if every one is; the first that is none is named."""
    for at, item in np.ndenumerate(values):
        if isinstance(item, numbers.Real) or (item is None or type(item).__name__ == "NAType"):
            continue
        place = " ".join(f"{axis} {k}" for axis, k in zip(("row", "column"), at, strict=False))
        columns = list(getattr(given, "columns", ())) if len(at) == 2 else []
        named = f" ({columns[at[1]]!r})" if columns else ""
        raise FedcoverError(
            f"{what} holds {shown(item)} in {place}{named}, which is no number",
            allowed="numbers, one column per class",
            fix="Leave out the columns that are no classes: give table[list_of_class_columns]"
            if columns
            else "Take it out, or turn it into a number",
        )
    flat = [_float(item) for item in values.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(values.shape)


def _float(item: Any) -> float:
    """A number as floating point: missing ones are NaN, and those beyond all others infinite."""
    try:
        return float(item) if isinstance(item, numbers.Real) else math.nan
    except OverflowError:
        return math.copysign(math.inf, 1 if item > 0 else -1)


def _plain(
    y: NDArray[Any], what: str, n_classes: int, numbered: Sequence[str | int] | None
) -> NDArray[Any]:
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
        if not is_whole(item):
            raise FedcoverError(
                f"{what}[{k}] is {shown(item)}, a {type(item).__name__}",
                allowed=f"whole numbers from 0 to {n_classes - 1}, or names of classes",
                fix="Give all labels as class numbers, or all as text",
            )
        if numbered is not None and int(item) not in numbered:
            raise _no_class(what, k, item, numbered)
        if numbered is None and not 0 <= item < n_classes:
            raise _out_of_range(what, k, item, n_classes)
    return np.array([int(item) for item in items], dtype=np.int64)


def is_whole(item: Any) -> bool:
    """Whether a Python object is a whole number."""
    if isinstance(item, (numbers.Integral, np.bool_)):
        return True
    return isinstance(item, (float, np.floating)) and bool(item == np.floor(item))


def _is_nan(item: Any) -> bool:
    return isinstance(item, (float, np.floating)) and math.isnan(item)


def _refuse(bad: NDArray[np.bool_], y: NDArray[Any], what: str, n_classes: int) -> None:
    if bad.any():
        k = int(np.argmax(bad))
        from_one = y.min() == 1 and y.max() == n_classes
        raise _out_of_range(what, k, y[k].item(), n_classes, from_one)


def _out_of_range(
    what: str, k: int, value: Any, n_classes: int, from_one: bool = False
) -> FedcoverError:
    return FedcoverError(
        f"{what}[{k}] is {f'{value:.6g}' if isinstance(value, float) else shown(value)}",
        allowed=f"whole numbers from 0 to {n_classes - 1}",
        fix=f"These count from 1: give labels - 1, or label_names=range(1, {n_classes + 1})"
        if from_one
        else "Number the classes from 0 in the order of the probability columns, or give "
        "label_names",
    )


def _by_number(y: NDArray[Any], what: str, known: Sequence[str | int]) -> Ints:
    """Class numbers of labels that are whole numbers, as the names of the classes are."""
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(np.array(known)[order], y), len(known) - 1)
    found = order[at]
    bad = np.array(known)[found] != y
    if bad.any():
        k = int(np.argmax(bad))
        raise _no_class(what, k, y[k].item(), known)
    return found.astype(np.int64)


def _no_class(what: str, k: int, value: Any, known: Sequence[str | int]) -> FedcoverError:
    return FedcoverError(
        f"{what}[{k}] is {value:.6g}, which is no class",
        allowed=f"the names of the classes: {listed(known, 8)}",
        fix="Name the label as its probability column",
    )


def _by_name(
    y: NDArray[Any], n_classes: int, what: str, class_names: Sequence[str | int] | None
) -> Ints:
    """Class numbers of labels given as text: by name, or as numbers where the names are none."""
    texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else str(t) for t in y.tolist()]
    if class_names is None:
        example = f" ({shown(texts[0])})" if texts else ""
        raise FedcoverError(
            f"{what} is text{example}, and the names of the classes are not known",
            allowed=f"whole numbers from 0 to {n_classes - 1}, or text with label_names",
            fix="Add label_names, the names of the probability columns in their order",
        )
    index = {str(name): k for k, name in enumerate(class_names)}
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
