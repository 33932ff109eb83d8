"""What all tests share: hypothesis profiles, random federations, and methods that listen or lie.

A test is in the fast set, which `python -m pytest` runs in about two minutes on two cores, or bears
one of four marks (pytestmark at the head of a file, or a decorator):

slow          takes most of a second or more on its own
deployment    starts real Flower processes, which mostly wait for each other
figures       draws the figures and pages a user gets, and measures what is on them
statistical   repeats an experiment many times; stays out of `.ci/run`

`python -m pytest -m "slow or deployment or figures"` is the rest of what `.ci/run` runs, and
`-m ""` is everything. The fast set covers nine lines in ten of what the whole covers.

HYPOTHESIS_PROFILE=long runs the property and fuzz tests for about an hour with fresh examples; the
default profile takes seconds and always tries the same ones.
"""

from __future__ import annotations

import gc
import os
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import fedcover as fc
from fedcover.privacy.randomness import SYSTEM
from tests.methods import outside as from_outside

settings.register_profile(
    "default",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=20_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of deployments first, those of few tests before others; `.ci/run` keeps that order.

    Such a file takes minutes. Left to itself, pytest-xdist gives out files by their number of
    tests, and one worker would be busy with deployments long after the other has ended.
    """
    size = Counter(item.path for item in items)
    items.sort(
        key=lambda item: size[item.path] if item.get_closest_marker("deployment") else len(items)
    )


@contextmanager
def _nothing_left_open() -> Iterator[None]:
    yield
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    left = [str(w.message) for w in caught if issubclass(w.category, ResourceWarning)]
    assert not left, f"left open (python -X tracemalloc=20 says where): {left}"


@pytest.fixture(scope="module", autouse=True)
def _each_module_closes_what_it_opens() -> Iterator[None]:
    """A file left open is found here, not in whichever later test the collector happens to run."""
    with _nothing_left_open():
        yield


@pytest.fixture
def nothing_left_open() -> Iterator[None]:
    """The same for one test, and the collector cannot hide it by chance."""
    gc.disable()
    try:
        with _nothing_left_open():
            yield
    finally:
        gc.enable()


def _federation(
    rng: np.random.Generator,
    *,
    n_sites: int = 3,
    n_classes: int = 4,
    kind: str = "continuous",
    counts: bool = False,
    least: int = 1,
    most: int = 40,
) -> list[fc.Site]:
    """Sites of random sizes and label mixes; a label may be missing at some or all of them."""
    sites = []
    for i in range(n_sites):
        n = int(rng.integers(least, most + 1))
        labels = rng.choice(n_classes, size=n, p=rng.dirichlet(np.full(n_classes, 0.7)))
        scores = rng.beta(2, 1 + labels)
        if kind == "ties":
            scores = np.round(scores * 8) / 8  # 0 and 1 included, and binary fractions
        elif kind == "ranks":
            scores = (1 + rng.integers(0, n_classes, n)) / n_classes  # what TopK gives
        elif kind == "ends":
            scores = rng.choice([0.0, 1e-9, 0.5, 1 - 1e-9, 1.0], size=n)
        given = rng.integers(0, 30, n_classes) + (np.arange(n_classes) == 0) if counts else None
        sites.append(fc.Site(f"s{i}", scores, labels, n_classes=n_classes, label_counts=given))
    return sites


@pytest.fixture(scope="session")
def federation() -> Callable[..., list[fc.Site]]:
    return _federation


class Spy:
    """A method that behaves as the one inside, and keeps every message a site saw or sent.

    change : what to do to a reply before the server sees it, (site name, reply) -> reply.
    """

    def __init__(self, method, change=None):
        self._method, self._change = method, change
        self.heard = []

    def __getattr__(self, name):
        return getattr(self._method, name)

    def answer(self, query, site, source=SYSTEM):
        reply = self._method.answer(query, site, source)
        if self._change:
            reply = self._change(site.name, reply)
        self.heard.append((site.name, query, reply))
        return reply


@pytest.fixture(scope="session")
def spy() -> type[Spy]:
    return Spy


@pytest.fixture
def outside() -> Iterator[types.ModuleType]:
    """The methods of `tests.methods.outside`, on the list of methods for the length of a test."""
    for entry in from_outside.ENTRIES:
        fc.methods.register(entry)
    try:
        yield from_outside
    finally:
        for entry in from_outside.ENTRIES:
            fc.methods.unregister(entry.name)
