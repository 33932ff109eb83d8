"""The private promise and its certificate: ``python -m benchmarks.certified [name ...]``.

    snippet        the README's sketch: 2 × 200 records, three labels, ε = 8
    federations    the simulated and the CIFAR-10 federation, every site, ε = 1, 2, 4, 8
    certificates   violations and set sizes on CIFAR-10, by score and temperature
    saturated      models that are sure of everything: set sizes beside EstimatedWeights
    equal          sketch, private DP-FedCP and the published algorithm at equal true ε
    cost           bytes, rounds and CPU time of one collection with 10, 100 and 1000 labels

Sites draw from the 10,000 CIFAR-10 outputs shipped here (or from a large sample of the simulated
law) with replacement, and coverage is that of all of them, exactly: nothing is held out. Bias is
against the attainable coverage, set sizes are against the best common threshold (oracle). With
--old, the folder `src` of another version of fedcover, its rows stand beside ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from inspect import cleandoc
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.statistical.trials import Cell, World, budget, trial
from tests.statistical.worlds import Population

import fedcover as fc
from benchmarks import federation
from benchmarks.promise import table
from fedcover.experiments.algorithm1 import Published, record_noise
from fedcover.experiments.federations import Draw, Simulated, cifar10, cifar10_records

Row = dict[str, Any]
ALPHA, LEVELS, CONFIDENCE = 0.1, (0.05, 0.1, 0.2), 0.95
PAPER = cifar10(cifar10_records(None, 1.6), fc.scores.APS())
"""The paper's ten sites of 5000 records in all, 55 % one label each."""


def outputs(temperature: float, score: fc.scores.Score) -> Population:
    """The CIFAR-10 outputs shipped here at a temperature."""
    path = files("fedcover.experiments") / "data" / "cifar10_resnet56.npz"
    with np.load(str(path), allow_pickle=False) as file:
        logits, labels = file["logits"], file["labels"]
    least = int(np.bincount(labels).min())
    rows = np.concatenate([np.flatnonzero(labels == y)[:least] for y in range(10)])
    return Population.of_logits(logits[rows].astype(np.float64) / temperature, score)


def simulated() -> Population:
    """The law of the simulated federation, 20,000 records of each label."""
    law, rng = Simulated(fc.scores.APS()), np.random.default_rng(99)
    points = np.repeat(law.means, 20_000, axis=0)
    probs = law.predict(points + rng.normal(size=points.shape))
    return Population.of_logits(np.log(probs), law.score)


def drawn(
    people: Population, mixes: np.ndarray, sizes: tuple[int, ...], target: int, *seed: int
) -> World:
    """A federation of these label mixes and sizes."""
    rng = np.random.default_rng([2026, *seed])
    labels = [rng.choice(len(p), n, p=p) for n, p in zip(sizes, mixes, strict=True)]
    sites = people.sites(labels, rng)
    return World("", people, sites, np.asarray(mixes[target]), int(rng.integers(2**31)))


def summary(errors: list[float], stated: list[float | None]) -> Row:
    """Bias, spread, and the share within two stated deviations."""
    off = np.array(errors)
    told = [(o, s) for o, s in zip(off, stated, strict=True) if s is not None]
    held = np.mean([abs(o) <= 2 * s for o, s in told]) if told else np.nan
    return {
        "draws": len(off),
        "bias": f"{off.mean():+.4f} ± {off.std() / np.sqrt(len(off)):.4f}",
        "sd": f"{off.std():.4f}",
        "stated": f"{np.mean([s for _, s in told]):.4f}" if told else "-",
        "within 2 stated": f"{held:.3f}",
    }


def stated_of(cal: fc.Calibration, level: int = 0) -> float | None:
    stated = getattr(cal, "coverage_error", None)
    return None if stated is None else float(np.ravel(stated)[level])


def snippet(draws: int) -> Iterator[Row]:
    """README snippet, ε = 8: labels have nothing to do with the probabilities."""
    rng = np.random.default_rng(5)
    logits = np.log(rng.dirichlet([1, 1, 1], 60_000))
    people, even = Population.of_logits(logits, fc.scores.APS()), np.full(3, 1 / 3)
    goals = [people.oracle(a, even).coverage for a in LEVELS]
    errors: list[list[float]] = [[] for _ in LEVELS]
    stated: list[list[float | None]] = [[] for _ in LEVELS]
    for r in range(draws):
        sites = drawn(people, np.tile(even, (2, 1)), (200, 200), 0, 1, r).sites
        sketch = fc.collect(sites, privacy=fc.Privacy(epsilon=8, delta=1e-5))
        cal = sketch.personalise(sites[0].label_counts, alpha=list(LEVELS))
        for a, goal in enumerate(goals):
            errors[a].append(people.coverage(cal, even, a) - goal)
            stated[a].append(stated_of(cal, a))
    for a, goal in enumerate(goals):
        yield {"target": f"{goal:.3f}", **summary(errors[a], stated[a])}


def federations(draws: int) -> Iterator[Row]:
    """Simulated and CIFAR-10 federations, every site, by ε."""
    people, real = simulated(), outputs(1.6, fc.scores.APS())
    even = np.full((10, 10), 0.1)
    for name, who, mixes, sizes, every in (
        ("simulated", people, Simulated.priors, Simulated.sizes, True),
        ("CIFAR-10", real, PAPER.priors, PAPER.sizes, True),
        ("ten even labels", real, even, (500,) * 10, False),
    ):
        for epsilon in (1, 2, 4, 8):
            asked = range(len(sizes)) if every else range(1)
            found: dict[tuple[int, str], list[tuple[float, float | None]]] = {}
            refused = 0
            for r in range(draws):
                w = drawn(who, mixes, sizes, 0, 2, r)
                try:
                    sketch = fc.collect(w.sites, privacy=budget(epsilon))
                except fc.FedcoverError:
                    refused += 1
                    continue
                for i in asked:
                    for known, mix in (("counted", w.sites[i].label_counts), ("known", mixes[i])):
                        cal = sketch.personalise(mix, alpha=ALPHA)
                        off = who.coverage(cal, mixes[i]) - who.oracle(ALPHA, mixes[i]).coverage
                        found.setdefault((i, known), []).append((off, stated_of(cal)))
            for (i, known), pairs in sorted(found.items()):
                yield {
                    "federation": name,
                    "ε": epsilon,
                    "site": f"{i + 1} of {sizes[i]}",
                    "mix": known,
                    **summary([o for o, _ in pairs], [s for _, s in pairs]),
                    "refused": refused,
                }


def certificates(draws: int) -> Iterator[Row]:
    """Certificates on CIFAR-10, N = 5000, target with 55 % of one label, β = .05."""
    scores: tuple[fc.scores.Score, ...] = (fc.scores.APS(), fc.scores.LAC(), fc.scores.RAPS())
    for score in scores:
        for temperature in (5.0, 1.6, 1.0, 1 / 3):
            people = outputs(temperature, score)
            worlds = [drawn(people, PAPER.priors, PAPER.sizes, 3, 3, r) for r in range(draws)]
            for counted in (None, 50):
                for epsilon in (None, 8.0, 2.0, 1.0):
                    rows = [trial(w, budget(epsilon), ALPHA, CONFIDENCE, counted) for w in worlds]
                    mix = "known" if counted is None else f"of {counted} labels"
                    yield _certificate(score, temperature, mix, epsilon or "none", rows)
            rows = [_alone(w, PAPER.sizes[3]) for w in worlds]
            yield _certificate(score, temperature, "own exact binomial", "none", rows)


def _certificate(
    score: fc.scores.Score, temperature: float, mix: str, epsilon: float | str, rows: list[Row]
) -> Row:
    cell = Cell.of(rows)
    coverage = np.mean([r["coverage"] for r in rows if "coverage" in r])
    return {
        "score": type(score).__name__,
        "temperature": f"{temperature:.3g}",
        "mix": mix,
        "ε": epsilon,
        "draws": cell.draws,
        "refused": cell.refused,
        "violations": cell.below,
        "coverage": f"{coverage:.3f}",
        "mean size": f"{np.mean([r['size'] for r in rows if 'size' in r]):.3f}",
        "/ oracle": f"{cell.size:.3f}",
        "too many": "yes" if cell.violated(CONFIDENCE, 0.95) else "",
    }


def _alone(w: World, records: int) -> Row:
    """The certificate of a site that has nobody else."""
    own = next(s for s in w.sites if len(s) == records)
    cal = fc.calibrate([own], ALPHA, fc.methods.Local(), certify=CONFIDENCE)[own.name]
    people, oracle = w.population, w.population.oracle(ALPHA, w.mix)
    return {
        "coverage": people.coverage(cal, w.mix),
        "attainable": oracle.coverage,
        "upper": oracle.upper,
        "stated": None,
        "warned": 0,
        "target": 1 - ALPHA,
        "size": people.size(cal, w.mix),
        "oracle": people.oracle_size(oracle, w.mix),
    }


def saturated(draws: int) -> Iterator[Row]:
    """No privacy, α = .05: mean set sizes beside those of EstimatedWeights."""
    for score in (fc.scores.APS(), fc.scores.LAC()):
        for temperature in (1.0, 0.3, 0.1, 0.05):
            people = outputs(temperature, score)
            found: dict[str, list[tuple[float, float]]] = {}
            for r in range(draws):
                w = drawn(people, PAPER.priors, PAPER.sizes, 3, 4, r)
                target, name = w.sites[3].label_counts, w.sites[3].name
                cals = {
                    "EstimatedWeights": _one(w, fc.methods.EstimatedWeights(), name),
                    "DPFedCP": _one(w, fc.methods.DPFedCP(), name),
                    "Sketch": fc.collect(w.sites).personalise(target, alpha=0.05),
                }
                for method, cal in cals.items():
                    pair = people.size(cal, w.mix), people.coverage(cal, w.mix)
                    found.setdefault(method, []).append(pair)
            base = np.mean([size for size, _ in found["EstimatedWeights"]])
            for method, pairs in found.items():
                size, covered = np.mean(pairs, axis=0)
                yield {
                    "score": type(score).__name__,
                    "temperature": temperature,
                    "within 1e-6 of 1": f"{np.mean(people.law.distances[0] < 1e-6):.3f}",
                    "method": method,
                    "draws": draws,
                    "coverage": f"{covered:.4f}",
                    "mean size": f"{size:.4f}",
                    "/ EstimatedWeights": f"{size / base:.4f}",
                }


def _one(w: World, method: Any, name: str, **options: Any) -> fc.Calibration:
    return fc.calibrate(w.sites, options.pop("alpha", 0.05), method, targets=name, **options)[name]


def equal(draws: int) -> Iterator[Row]:
    """Equal true ε, secure sum, CIFAR-10, site 4: the published algorithm hides scores only.

    Its counts travel exactly, so its ε is that of one score with a public label, all rounds, steps
    and labels composed; the other two hide the whole record.
    """
    for name, score, temperature in (
        ("APS", fc.scores.APS(), 1.6),
        ("APS, overconfident", fc.scores.APS(), 1 / 3),
        ("LAC", fc.scores.LAC(), 1.6),
    ):
        people = outputs(temperature, score)
        for epsilon in (1.0, 2.0, 8.0):
            found: dict[str, list[float]] = {}
            refused: dict[str, int] = {}
            for r in range(draws):
                w = drawn(people, PAPER.priors, PAPER.sizes, 3, 5, r)
                goal = people.oracle(ALPHA, w.mix).coverage
                for method, cover in _methods(w, epsilon, r).items():
                    off = found.setdefault(method, [])
                    try:
                        off.append(cover() - goal)
                    except fc.FedcoverError:
                        refused[method] = refused.get(method, 0) + 1
            for method, off in found.items():
                rms = np.sqrt(np.mean(np.square(off)))
                yield {
                    "scores": name,
                    "ε": epsilon,
                    "method": method,
                    **{k: v for k, v in summary(off, [None] * len(off)).items() if "sta" not in k},
                    "root mean square": f"{rms:.4f}",
                    "refused": refused.get(method, 0),
                }


def _methods(w: World, epsilon: float, r: int) -> dict[str, Callable[[], float]]:
    """Coverage of the target by every method, when called."""
    own, people, privacy = w.sites[3], w.population, budget(epsilon)
    empty = np.empty(0)
    draw = Draw(w.sites, own.name, PAPER.priors, empty, empty, empty, empty, empty)

    def sketch() -> float:
        cal = fc.collect(w.sites, privacy=privacy).personalise(own.label_counts, alpha=ALPHA)
        return people.coverage(cal, w.mix)

    def private() -> float:
        cal = _one(w, fc.methods.DPFedCP(), own.name, alpha=ALPHA, privacy=privacy)
        return people.coverage(cal, w.mix)

    def published(start: float) -> float:
        noise = record_noise(w.sites, 3, epsilon)
        found = Published(start, noise=noise, subsample=False).thresholds(draw, ALPHA, r)
        return people.law.coverage(found, w.mix)

    return {
        "Sketch": sketch,
        "DPFedCP": private,
        **{f"published, q₀ = {q:g}": partial(published, q) for q in (0.5, 1.0)},
    }


def cost(draws: int) -> Iterator[Row]:
    """One collection from ten sites of 4000 records, ε = 2, secure sum."""
    for n_classes in (10, 100, 1000):
        sites = federation.sites([4000] * 10, n_classes)
        taken = []
        for _ in range(min(draws, 3)):
            began = time.process_time()
            sketch = fc.collect(federation.again(sites), privacy=budget(2.0))
            middle = time.process_time()
            sketch.personalise(sites[0].label_counts, alpha=list(LEVELS))
            taken.append((middle - began, time.process_time() - middle))
        collect, personalise = np.min(taken, axis=0)
        yield {
            "labels": n_classes,
            "rounds": sketch.cost.rounds,
            "bytes up": f"{sketch.cost.bytes_up:,}",
            "bytes down": f"{sketch.cost.bytes_down:,}",
            "collect, CPU s": f"{collect:.3f}",
            "personalise, CPU s": f"{personalise:.3f}",
        }


PARTS = {
    "snippet": (snippet, 50),
    "federations": (federations, 200),
    "certificates": (certificates, 60),
    "saturated": (saturated, 20),
    "equal": (equal, 50),
    "cost": (cost, 3),
}
"""What there is, with its number of draws."""


def tables(quick: bool) -> Iterator[Table]:
    for name, (part, draws) in PARTS.items():
        yield shown(name, list(part(max(2, draws // 20) if quick else draws)))


def shown(name: str, rows: list[Row]) -> Table:
    made = table(f"{name}: {cleandoc(PARTS[name][0].__doc__ or '')}", *rows[0])
    for row in rows:
        made.add_row(*map(str, row.values()))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.certified",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="name", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--draws", type=int, help="in place of each part's own number")
    parser.add_argument("--old", type=Path, help="the folder src of another version")
    parser.add_argument("--json", action="store_true", help="print rows, one part a line")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {list(PARTS)}")
    warnings.simplefilter("ignore", fc.FedcoverWarning)
    console = Console(width=max(150, Console().width))
    for name in options.parts or PARTS:
        part, draws = PARTS[name]
        draws = options.draws or draws
        rows = list(part(draws))
        if options.json:
            print(json.dumps(rows), flush=True)
            continue
        if options.old:
            told = [{"fedcover": "this", **row} for row in rows]
            rows = told + [{"fedcover": "old", **row} for row in _other(name, draws, options.old)]
        console.print(shown(name, rows))


def _other(name: str, draws: int, source: Path) -> list[Row]:
    """The rows of a part with another version of fedcover."""
    command = [sys.executable, "-m", "benchmarks.certified", name, "--json", "--draws", str(draws)]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
