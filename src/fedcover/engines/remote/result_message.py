"""What the server publishes, as a message to the sites; each makes its own calibration of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedcover import checks
from fedcover._io.facts import facts_of, made_of
from fedcover.calibration import Calibration, Cost
from fedcover.engines.remote.policy import METHODS
from fedcover.errors import FedcoverError
from fedcover.fit import calibration_of
from fedcover.methods.base import Fit
from fedcover.methods.sketch.file import from_bytes, to_bytes
from fedcover.methods.sketch.result import SketchResult
from fedcover.position import TOP
from fedcover.privacy.statement import PrivacyStatement
from fedcover.site import Site
from fedcover.wire import Message

ARRAYS = {"positions": np.int64, "ratios": np.float64, "records": np.float64, "unseen": np.float64}
NUMBERS = ("total", "available")


def sketch_message(sketch: SketchResult) -> Message:
    """A sketch, as the bytes of its file."""
    return Message("sketch-file", {"file": np.frombuffer(to_bytes(sketch), np.uint8)})


def fit_message(fit: Fit) -> Message:
    """The fit of one target."""
    arrays = {name: np.asarray(getattr(fit, name), kind) for name, kind in ARRAYS.items()}
    numbers = {name: getattr(fit, name) for name in NUMBERS}
    if fit.counted is not None:
        numbers["counted"] = fit.counted
    return Message("fit", arrays, numbers)


def fit_facts(
    method: str,
    label: str,
    statement: PrivacyStatement | None,
    cost: Cost,
    n_sites: int,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a site needs to know besides its fit.

    Parameters
    ----------
    method, label
        Name of the method by which rules know it, and the one that tables show.
    statement, cost, n_sites
        Of the run.
    options
        Those of the method, on which its guarantee depends; None for the usual ones.
    """
    return {
        "method": method,
        "label": label,
        "privacy": facts_of(statement),
        "cost": facts_of(cost),
        "n_sites": n_sites,
        "options": dict(options or {}),
    }


def calibration_from(
    message: Message, facts: Mapping[str, Any], site: Site
) -> Callable[[], Calibration]:
    """How this site makes its calibration from what was published and what it alone knows.

    What was published is checked here, against public facts only; the function that is returned
    looks at the site's own label mix.
    """
    try:
        if message.kind == "sketch-file":
            return _personalised(message, facts, site)
        return _concluded(message, facts, site)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, FedcoverError):
            raise
        raise _strange(f"a result that cannot be ({type(error).__name__}: {error})") from error


def _personalised(
    message: Message, facts: Mapping[str, Any], site: Site
) -> Callable[[], Calibration]:
    sketch = from_bytes(message.arrays["file"].tobytes())
    if sketch.n_classes != site.n_classes or sketch.score != site.score:
        raise _strange("a sketch of other classes or another score")
    # All sites have said hello with the same temperature and label names as this one.
    sketch = replace(sketch, temperature=site.temperature, label_names=site.label_names)
    alphas = checks.alphas(facts["alphas"])
    certify = facts.get("certify")
    if certify is not None:
        certify = checks.real(certify, "certify", 0, 1, open_low=True)
    return lambda: sketch.personalise(site, alphas, certify=certify)


def _concluded(message: Message, facts: Mapping[str, Any], site: Site) -> Callable[[], Calibration]:
    alphas = checks.alphas(facts["alphas"])
    shapes = {"positions": (len(alphas), site.n_classes)}
    values: dict[str, Any] = {}
    for name, kind in ARRAYS.items():
        values[name] = array = message.arrays[name]
        good = array.dtype == kind and array.shape == shapes.get(name, (site.n_classes,))
        if not good or not np.isfinite(array).all() or (array < 0).any():
            raise _strange(f"{name} that cannot be")
    if (values["positions"] > TOP).any():
        raise _strange("thresholds above 1")
    for name in NUMBERS:
        values[name] = checks.real(message.numbers[name], name, 0, np.inf)
    values["available"] = checks.whole(message.numbers["available"], "available", 1)
    counted = message.numbers.get("counted")
    fit = Fit(**values, counted=None if counted is None else checks.whole(counted, "counted", 0))
    method = type(METHODS[facts["method"]][0])(**facts["options"])
    return partial(
        calibration_of,
        fit,
        site.name,
        alphas,
        method,
        made_of(PrivacyStatement | None, facts["privacy"]),
        Cost(**{name: checks.whole(n, name, 0) for name, n in facts["cost"].items()}),
        checks.whole(facts["n_sites"], "n_sites", 1),
        site.score,
        site.temperature,
        site.label_names,
    )


def _strange(what: str) -> FedcoverError:
    return FedcoverError(
        what,
        allowed="what a run publishes that this site took part in",
        fix="Server and site run different versions of fedcover, or this is not your server",
    )
