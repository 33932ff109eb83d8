"""Sketch files on the command line: told apart from site files, which are .npz as well."""

from __future__ import annotations

import zipfile
from functools import reduce
from operator import add
from pathlib import Path

import fedcover as fc
from fedcover._io.writing import output_file
from fedcover.errors import FedcoverError, FileError


def load_sketch(path: Path) -> fc.SketchResult:
    """The sketch in a file; a site file or a calibration in its place is an easy slip."""
    held = _arrays(path)
    if held & {"probs", "logits"}:
        raise FileError(
            f"{path} holds model outputs",
            allowed="a sketch, written by `fedcover collect` or `fedcover merge`",
            fix="Give the sketch here, and the site's own file with --site",
        )
    if path.suffix.lower() == ".json":
        raise FileError(
            f"{path} is not a sketch",
            allowed="a sketch (.npz), written by `fedcover collect` or `fedcover merge`",
            fix="A calibration (.json) is ready for `fedcover predict`",
        )
    return fc.SketchResult.load(path)


def no_sketches(files: list[Path]) -> list[Path]:
    """The site files given, after a look that none of them is a sketch."""
    for path in files:
        if _arrays(path) >= {"header", "sha256", "table"}:
            raise FileError(
                f"{path} is a sketch and stands in place of a site file",
                allowed="model outputs of records",
                fix="Repeat the option for every sketch (--merge a.npz --merge b.npz); to add "
                "sketches alone use `fedcover merge`",
            )
    return files


def merged(paths: list[Path]) -> fc.SketchResult:
    """The sum of the sketches in several files."""
    return reduce(add, [load_sketch(path) for path in paths])


def outputs(places: dict[str, Path | None], read: list[Path]) -> None:
    """Refuse output files of the wrong kind, in a bad place, or in that of a file to be read.

    Parameters
    ----------
    places
        By the ending they must have, the files to write.
    read
        Files that must not be overwritten.
    """
    for ending, path in places.items():
        if path is None:
            continue
        output_file(path)
        if path.suffix.lower() != ending:
            raise FileError(
                f"{path} ends in {path.suffix!r}",
                allowed=ending,
                fix=f"Call it {path.stem}{ending}",
            )
        if any(_same(path, other) for other in read):
            raise FedcoverError(
                f"{path} is to be read and to be written",
                allowed="an output that overwrites no input",
                fix="Choose another name for the output",
            )


def _same(one: Path, two: Path) -> bool:
    return one.exists() and two.exists() and one.samefile(two)


def _arrays(path: Path) -> set[str]:
    """Names of the arrays in an .npz file; none if it is another kind of file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return set()
