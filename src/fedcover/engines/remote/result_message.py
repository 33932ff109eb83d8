"""What the server publishes, as a message to the sites; each makes its own calibration of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover._io.facts import facts_of, from_json, made_of, to_json
from fedcover.calibration import Calibration, Cost
from fedcover.engines.base import Publication
from fedcover.engines.remote import own_records
from fedcover.engines.remote.belief import Known
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.fit import Fit, Provenance, calibration_of, nested
from fedcover.methods import registry
from fedcover.methods.base import Method, ServerMethod, Target, Task, checked_certify
from fedcover.methods.registry import entry_of
from fedcover.methods.sketch.file import from_bytes, to_bytes
from fedcover.methods.sketch.method import Sketch
from fedcover.methods.sketch.result import SketchResult
from fedcover.position import TOP
from fedcover.privacy.statement import PrivacyStatement
from fedcover.site import Site
from fedcover.wire import Message

ARRAYS = {"positions": np.int64, "ratios": np.float64, "records": np.float64, "unseen": np.float64}
NUMBERS = ("total", "available")

MOST_WORDS = 1 << 16
"""Bytes of what a method may say of a fit."""

MOST_LEVELS, MOST_THRESHOLDS = 1000, 1 << 24
"""Levels of a result, and levels times labels: a site works on each, and a server names them."""


@dataclass(frozen=True)
class _Words:
    """What a method says of a fit."""

    error: str
    alarms: tuple[str, ...]


def check_publishable(method: Method) -> None:
    """Refuses, before any message, a method of whose result sites elsewhere could make nothing."""
    if isinstance(method, Sketch):
        return
    if method.most_rounds and not isinstance(method, ServerMethod):
        raise FedcoverError(
            f"method {method.label} for sites that are elsewhere",
            allowed="a Sketch, a ServerMethod, or a method that sends nothing",
            fix="Derive it from fedcover.methods.base.ServerMethod: its server publishes a Fit for "
            "every target",
        )
    try:
        to_json(_options(method))
    except (TypeError, ValueError) as error:
        raise FedcoverError(
            f"an option of method {method.label} that cannot travel ({error})",
            allowed="numbers, texts, None and lists of them",
            fix="Keep other things out of the fields of the method",
        ) from None


def check_levels(alphas: Sequence[float], n_classes: int) -> None:
    """Refuses more levels than a site makes thresholds for."""
    if len(alphas) > MOST_LEVELS or len(alphas) * n_classes > MOST_THRESHOLDS:
        raise FedcoverError(
            f"{len(alphas):,} levels of {n_classes:,} labels for sites that are elsewhere",
            allowed=f"at most {MOST_LEVELS:,} levels, and {MOST_THRESHOLDS:,} thresholds",
            fix="Take fewer levels; with a sketch every site can make others by itself",
        )


def result_message(publication: Publication) -> dict[str, Message]:
    """What was published, for each site that makes a calibration of it."""
    published = publication.published
    if isinstance(published, SketchResult):
        return dict.fromkeys(publication.task.sites, sketch_message(published))
    own = {t.members[0]: t.name for t in publication.task.targets if len(t.members) == 1}
    if not publication.method.most_rounds:  # nothing was asked: every site is on its own
        return dict.fromkeys(own, Message("alone"))
    return {site: fit_message(_sorted(publication, published[t])) for site, t in own.items()}


def _sorted(publication: Publication, fit: Fit) -> Fit:
    """A fit with thresholds that never grow with α: sites refuse others."""
    return replace(fit, positions=nested(publication.task.alphas, fit.positions))


def sketch_message(sketch: SketchResult) -> Message:
    """A sketch, as the bytes of its file."""
    return Message("sketch-file", {"file": np.frombuffer(to_bytes(sketch), np.uint8)})


def fit_message(fit: Fit) -> Message:
    """The fit of one target."""
    arrays = {name: np.asarray(getattr(fit, name), kind) for name, kind in ARRAYS.items()}
    numbers = {name: getattr(fit, name) for name in NUMBERS}
    if fit.counted is not None:
        numbers["counted"] = fit.counted
    if fit.coverage_error is not None:
        arrays["coverage_error"] = fit.coverage_error
    if fit.error or fit.alarms:
        words = to_json(facts_of(_Words(fit.error, fit.alarms)))
        arrays["words"] = np.frombuffer(words.encode(), np.uint8)
    return Message("fit", arrays, numbers)


def result_header(
    publication: Publication, alpha: tuple[float, ...], certify: float | None
) -> dict[str, Any]:
    """What a site needs to know besides; levels of a collection come from the coordinator."""
    task, method = publication.task, publication.method
    if isinstance(publication.published, SketchResult):
        return {"alphas": alpha, "certify": certify}
    return {
        "alphas": task.alphas,
        "certify": task.certify,
        "method": entry_of(method).name,
        "label": method.label,
        "privacy": facts_of(publication.statement),
        "cost": facts_of(publication.cost),
        "n_sites": len(task.sites),
        "options": _options(method),
    }


def _options(method: Method) -> dict[str, Any]:
    """The options with which a site makes the method anew."""
    return {name: facts_of(getattr(method, name)) for name in entry_of(method).options}


def calibration_from(
    message: Message, facts: Mapping[str, Any], site: Site, known: Known
) -> Callable[[], Calibration]:
    """How this site makes its calibration from what was published and what it alone knows.

    What was published is checked here, against public facts only; the function that is returned
    looks at the site's own label mix and records, and refuses what these contradict.
    """
    try:
        if message.kind == "sketch-file":
            return _personalised(message, facts, site, known)
        return _finalised(message, facts, site, known)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, FedcoverError):
            raise
        raise _strange(f"a result that cannot be ({type(error).__name__}: {error})") from error


def _personalised(
    message: Message, facts: Mapping[str, Any], site: Site, known: Known
) -> Callable[[], Calibration]:
    sketch = from_bytes(message.arrays["file"].tobytes())
    if sketch.n_classes != site.n_classes or sketch.score != site.score:
        raise _strange("a sketch of other classes or another score")
    known.check_sketch(sketch)
    sketch = replace(
        sketch,
        privacy=known.statement(sketch.privacy),
        # All sites have said hello with the same temperature and label names as this one.
        temperature=site.temperature,
        label_names=site.label_names,
    )
    check_levels(facts["alphas"], site.n_classes)
    alphas = checks.alphas(facts["alphas"])
    certify = facts.get("certify")
    if certify is not None:
        certify = checks.real(certify, "certify", 0, 1, open_low=True)

    def make() -> Calibration:
        own_records.check_table(sketch, site)
        cal = sketch.personalise(site, alphas, certify=certify)
        error = cal.coverage_error if certify is None else _error(sketch, site, alphas)
        own_records.check_coverage(cal, site, error)
        return cal

    return make


def _error(sketch: SketchResult, site: Site, alphas: tuple[float, ...]) -> NDArray[Any] | None:
    """The error of thresholds without a certificate, which states none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoverWarning)  # said of those that are used
        return sketch.personalise(site, alphas).coverage_error


def _finalised(
    message: Message, facts: Mapping[str, Any], site: Site, known: Known
) -> Callable[[], Calibration]:
    check_levels(facts["alphas"], site.n_classes)
    alphas = checks.alphas(facts["alphas"])
    method = registry.named(facts["method"]).method(**facts["options"])
    known.check_method(facts["method"])
    alone = message.kind == "alone"
    if alone != (not method.most_rounds):
        raise _strange("a result without thresholds, or thresholds that nobody asked for")
    certify = checked_certify(facts.get("certify"), method)
    target = Target(site.name, (site.name,))
    task = Task((site.name,), site.n_classes, alphas, (target,), certify=certify)
    n_sites = checks.whole(facts["n_sites"], "n_sites", 1)
    published = {} if alone else {site.name: _read_fit(message, alphas, site)}
    for fit in published.values():
        known.check_fit(fit, alphas, n_sites)
    source = Provenance(
        known.statement(made_of(PrivacyStatement | None, facts["privacy"])),
        Cost(**{name: checks.whole(n, name, 0) for name, n in facts["cost"].items()}),
        n_sites,
        site.score,
        site.temperature,
        site.label_names,
    )

    def make() -> Calibration:
        fit = method.finalise(task, published, target, site)
        cal = calibration_of(fit, site.name, alphas, method, source)
        if not alone:  # then nothing of the server's is in the thresholds
            own_records.check_size(fit.available, site)
            subsampled = bool(getattr(method, "subsample", False))
            own_records.check_coverage(cal, site, fit.coverage_error, subsampled)
        return cal

    return make


def _read_fit(message: Message, alphas: tuple[float, ...], site: Site) -> Fit:
    """The fit of this site, checked against public facts."""
    shapes = {"positions": (len(alphas), site.n_classes), "coverage_error": (len(alphas),)}
    values: dict[str, Any] = {}
    kinds: dict[str, Any] = dict(ARRAYS)
    if "coverage_error" in message.arrays:
        kinds["coverage_error"] = np.float64
    for name, kind in kinds.items():
        values[name] = array = message.arrays[name]
        good = array.dtype == kind and array.shape == shapes.get(name, (site.n_classes,))
        if not good or not np.isfinite(array).all() or (array < 0).any():
            raise _strange(f"{name} that cannot be")
    if (values["positions"] > TOP).any():
        raise _strange("thresholds above 1")
    for name in NUMBERS:
        values[name] = checks.real(message.numbers[name], name, 0, np.inf)
    values["available"] = checks.whole(message.numbers["available"], "available", 1)
    if (counted := message.numbers.get("counted")) is not None:
        values["counted"] = checks.whole(counted, "counted", 0)
    if "words" in message.arrays:
        words = made_of(_Words, from_json(message.arrays["words"].tobytes(), MOST_WORDS))
        if not all(text.isprintable() for text in (words.error, *words.alarms)):
            raise _strange("words that cannot be")
        values |= vars(words)
    return Fit(**values)


def _strange(what: str) -> FedcoverError:
    return FedcoverError(
        what,
        allowed="what a run publishes that this site took part in",
        fix="Server and site run different versions of fedcover, or this is not your server",
    )
