"""Names of the classes: text or whole numbers, from users, from tables, and in one order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.inputs import LONGEST_NAME, Ints, any_array, is_plain, is_whole, listed, shown

Names = tuple[str | int, ...]
"""Names of the classes: all text, or all whole numbers, as they were given."""

PLAIN_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")
"""A whole number as it is written, which is no code with zeros in front."""


def column_names(values: Any) -> Names | None:
    """Names of the columns of a table, such as a pandas or polars DataFrame, or None.

    None where `values` is no table or its columns are only numbered (0, 1, 2, or column_0 and so
    on). Class probabilities in a table with named columns name their classes. Whoever keeps the
    names at calibration can put a later table in order by them.
    """
    columns = getattr(values, "columns", None)
    if columns is None or isinstance(values, type) or callable(columns):
        return None
    try:
        found = list(columns)
    except TypeError:
        return None
    if found and all(map(_is_number, found)):
        found = [int(name) for name in found]
        return None if found == list(range(len(found))) else tuple(found)
    if not found or not all(isinstance(name, str) for name in found):
        return None
    for prefix in ("", "column_"):
        if found == [f"{prefix}{k}" for k in range(len(found))]:
            return None
    return tuple(found)


def in_order(values: Any, known: Names | None, what: str, whose: str) -> Any:
    """A table with its columns in the order of known classes; everything else as it is.

    Parameters
    ----------
    values
        A table with named columns, one row of one, or anything else.
    known
        (C,) the classes in order; None where they have no names.
    what, whose
        How errors call the table, and whose classes they are.
    """
    if known and hasattr(values, "to_frame") and getattr(values, "ndim", 0) == 1:
        values = values.to_frame().T  # one row of a pandas table; its index names the columns
    columns = column_names(values)
    if not columns or not known or columns == known:
        return values
    order = order_of(columns, known, what, whose)
    return any_array(values, what)[:, order]


def order_of(given: Names, known: Names, what: str, whose: str) -> list[int]:
    """Where each known class stands among given ones; they must be the same classes."""
    place = {str(name): k for k, name in enumerate(given)}
    wanted = [str(name) for name in known]
    if set(place) != set(wanted) or len(place) < len(given):
        missing = [name for name in wanted if name not in place]
        strange = [name for name in place if name not in wanted]
        parts = [f"no class {listed(missing, 6)}"] * bool(missing)
        parts += [f"a class {listed(strange, 6)} that is not known"] * bool(strange)
        raise FedcoverError(
            f"{what} has {' and '.join(parts) or 'a class twice'}",
            allowed=f"{whose} classes, in any order: {listed(wanted, 8)}",
            fix="Name the classes alike everywhere, and leave out columns that are no classes",
        )
    return [place[name] for name in wanted]


def names(
    given: Sequence[str | int] | NDArray[Any] | None, n_classes: int, what: str
) -> Names | None:
    """Names of the classes: as many as classes, all different; whole numbers stay numbers.

    None for the numbers from 0 on, which classes without names have anyway.
    """
    if given is None:
        return None
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, (tuple, list, range)):
        raise FedcoverError(
            f"{what} is {given!r}", allowed=f"a list of {n_classes} names", fix="Make it a list"
        )
    whole = all(map(_is_number, given))
    found: Names = tuple(int(g) for g in given) if whole else tuple(str(g) for g in given)
    if len(found) != n_classes or len(set(found)) != n_classes:
        raise FedcoverError(
            f"{what} has {len(found)} names, {len(set(found))} of them different",
            allowed=f"{n_classes} different names",
            fix="Give one name per probability column, in their order",
        )
    for name in found:
        text = str(name)
        if len(text) > LONGEST_NAME or not is_plain(text):
            raise FedcoverError(
                f"{what} has the name {shown(text)}",
                allowed=f"at most {LONGEST_NAME} characters that can be seen",
                fix="Rename the class: line breaks and marks that steer a screen stand in no name",
            )
    return None if found == tuple(range(n_classes)) else found


def numbers_where_whole(texts: Sequence[str]) -> list[str] | list[int]:
    """Names of a text file, where a number cannot be told from its digits: numbers if all are."""
    if all(PLAIN_NUMBER.fullmatch(text) for text in texts):
        return [int(text) for text in texts]
    return list(texts)


def in_words(labels: Ints, names: Names | None) -> NDArray[Any]:
    """Class numbers as `labels` takes them: where the names are whole numbers, by these."""
    if names is None or not isinstance(names[0], int):
        return labels
    return np.array(names, dtype=np.int64)[labels]


def _is_number(item: Any) -> bool:
    """Whether a name of a class is a whole number, and no truth value."""
    return is_whole(item) and not isinstance(item, (bool, np.bool_)) and abs(item) < 1 << 62
