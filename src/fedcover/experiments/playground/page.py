"""The page: the formulas of `forecast` once more, in a script, with the curves as data.

``python -m fedcover.experiments.playground.page docs/playground.html`` makes it anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcover._io.facts import to_json
from fedcover._io.writing import write
from fedcover.certificate import TOTALS_SHARE
from fedcover.experiments.playground.curves import CLASSES, TEMPERATURE, Curves, cifar10
from fedcover.experiments.playground.forecast import CONFIDENCE, DELTA
from fedcover.methods.sketch import factor, plan
from fedcover.methods.sketch.certify import WINDOWS
from fedcover.methods.sketch.curve import WHOLE_BIN


def write_page(path: str | Path) -> None:
    """Write the page, which needs nothing but a browser."""
    write(path, html())


def html() -> str:
    """The page as text."""
    import jinja2

    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("fedcover.experiments.playground", "."),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    template = pages.get_template("page.html.j2")
    return template.render(facts=facts(cifar10()), classes=CLASSES, temperature=TEMPERATURE)


def facts(curves: Curves) -> str:
    """Curves and constants of the package that the script takes from here."""
    return to_json(
        {
            "records": curves.records,
            "misses": _steps(curves.misses),
            "left_out": _steps(curves.left_out),
            "classes": list(CLASSES),
            "delta": DELTA,
            "confidence": CONFIDENCE,
            "unit": factor.UNIT,
            "label_share": plan.LABEL_SHARE,
            "least_share_sigma": plan.LEAST_SHARE_SIGMA,
            "whole_bin": WHOLE_BIN,
            "windows": list(WINDOWS),
            "totals_share": TOTALS_SHARE,
        },
        compact=True,
    )


def _steps(counts: NDArray[np.int64]) -> list[list[int]]:
    """What each bin adds: short numbers."""
    steps: list[list[int]] = np.diff(counts, axis=1, prepend=0).tolist()
    return steps


if __name__ == "__main__":
    write_page(sys.argv[1])
