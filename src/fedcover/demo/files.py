"""The demo's files: results.csv, calibrations, and data to try the other commands on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from fedcover.demo import data
from fedcover.demo.experiment import OURS, Results
from fedcover.errors import FileError


def make_folder(out: Path) -> None:
    """The folder for the files, made where it does not exist."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{out} cannot be made a folder ({error.strerror})",
            allowed="a folder, or a name that is free",
            fix="Choose another --out",
        ) from None


def write(results: Results, out: Path) -> None:
    """Write everything but the report and its figures."""
    _results_csv(results, out / "results.csv")
    fed = results.federation
    names = np.array(data.LABEL_NAMES)
    for s, hospital in enumerate(results.hospitals):
        results.calibrations[OURS][hospital.name].save(out / f"{hospital.name}.json")
        for kind, rows in (
            ("site", results.split.calibration[s]),
            ("new", results.split.test[s]),
        ):
            np.savez_compressed(
                out / f"{kind}-{hospital.name}.npz",
                probs=fed.probs[rows],
                labels=fed.labels[rows],
                label_names=names,
            )


def _results_csv(results: Results, path: Path) -> None:
    """One row per repetition, site and method."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["repetition", "site", "method", "n_calibration", "n_test", "coverage", "mean_size"]
        )
        for r in range(results.repetitions):
            for s, hospital in enumerate(results.hospitals):
                for m, method in enumerate(results.names):
                    coverage = float(results.coverage[r, m, s])
                    size = float(results.size[r, m, s])
                    sizes = (hospital.size, data.TEST_SIZE)
                    writer.writerow([r, hospital.name, method, *sizes, coverage, size])
