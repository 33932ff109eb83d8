"""Results as one table: a parquet file that carries settings, versions and seeds with it."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover._io.facts import from_json
from fedcover._io.writing import part_of
from fedcover.errors import FedcoverError, FileError
from fedcover.experiments.study import Row

KEY = b"fedcover"
"""Under which they stand in the file's own."""


@dataclass(frozen=True)
class Results:
    """Rows of all repetitions, by column, with what was run.

    Attributes
    ----------
    columns
        Equally long arrays by name.
    metadata
        Experiment, settings, seed, repetitions, versions.
    """

    columns: dict[str, NDArray[Any]]
    metadata: dict[str, Any]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the study."""
        return dict(self.metadata["settings"])

    @property
    def repetitions(self) -> int:
        return int(self.metadata["repetitions"])

    def where(self, **equal: Any) -> Results:
        """The rows whose columns have these values."""
        keep = np.ones(len(self), dtype=bool)
        for name, value in equal.items():
            keep &= self.columns[name] == value
        return Results({n: c[keep] for n, c in self.columns.items()}, self.metadata)

    def values(self, column: str, **equal: Any) -> NDArray[Any]:
        """A column of those rows."""
        return self.where(**equal).columns[column]

    def kinds(self, column: str) -> list[Any]:
        """The different values of a column, in order of appearance."""
        return list(dict.fromkeys(self.columns[column].tolist()))


def of_rows(rows: Sequence[Row], metadata: dict[str, Any]) -> Results:
    """Results from rows, all with the same columns."""
    if not rows:
        raise FedcoverError("no rows", allowed="at least one repetition", fix="Repeat it")
    names = list(rows[0])
    return Results({n: np.array([row[n] for row in rows]) for n in names}, metadata)


def versions() -> dict[str, str]:
    """What the results were computed with."""
    packages = ("fedcover", "numpy", "scipy", "numba", "dp-accounting")
    return {"python": platform.python_version(), **{p: version(p) for p in packages}}


def code() -> str:
    """What tells this source code from any other, edited or not."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def save(results: Results, path: Path) -> None:
    """Write the table."""
    parquet, arrow = pyarrow_modules()
    table = arrow.table({n: arrow.array(c.tolist()) for n, c in results.columns.items()})
    meta = {KEY: json.dumps(results.metadata).encode()}
    with part_of(path) as part:
        parquet.write_table(table.replace_schema_metadata(meta), part)


def load(path: Path) -> Results:
    """Read what `save` wrote."""
    parquet, arrow = pyarrow_modules()
    try:
        table = parquet.read_table(path)
        metadata = from_json((table.schema.metadata or {})[KEY])
    except (OSError, KeyError, ValueError, arrow.ArrowException):
        raise FileError(
            f"{path} is not a results table of fedcover",
            allowed="a .parquet file written by fedcover reproduce",
            fix="Delete it and run the experiment again",
        ) from None
    return Results({n: np.array(table[n].to_pylist()) for n in table.column_names}, metadata)


def joined(parts: Iterable[Results], metadata: dict[str, Any]) -> Results:
    """Several tables as one, in order."""
    tables = list(parts)
    names = tables[0].columns
    return Results({n: np.concatenate([t.columns[n] for t in tables]) for n in names}, metadata)


def pyarrow_modules() -> tuple[Any, Any]:
    """pyarrow.parquet and pyarrow, or an error that names the extra."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise FedcoverError(
            "results are kept as parquet tables, and pyarrow is not installed",
            allowed="fedcover with the extra reproduce",
            fix="pip install 'fedcover[reproduce]'",
        ) from None
    return parquet, pyarrow
