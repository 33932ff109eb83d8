"""What is computed before and after: small federations, every method, and the bits of the results.

Inputs come from uniform numbers, maxima and divisions alone, which are the same on every machine.
Sums and exponentials are not: their last bit depends on what OpenBLAS and NumPy take for the
processor. Results are therefore computed in a process of their own, as on any x86-64 with AVX2.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import fedcover as fc
from tests.before import doors

M = fc.methods
ALPHAS = (0.05, 0.1, 0.3)


KERNEL = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OMP_NUM_THREADS": "1",
}

one_kernel = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or platform.system() == "Darwin",
    reason="the last bit of a sum is that of another kernel here",
)


def computed(part):
    """All results of a part, a name of `PARTS` or "resumed", from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.before.cases", part],
        cwd=Path(__file__).parents[2],
        env=os.environ | KERNEL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def power_scores(rng, labels):
    """Scores whose law depends on the label: the largest of 1 + label uniform numbers."""
    n = len(labels)
    uniform = rng.random((n, 1 + int(labels.max())))
    return np.where(np.arange(uniform.shape[1]) <= labels[:, None], uniform, 0.0).max(axis=1)


def plain():
    """Three sites, four labels; "b" has no record of label 3."""
    rng, out = np.random.default_rng(1), []
    for name, n, classes in (("a", 60, 4), ("b", 25, 3), ("c", 90, 4)):
        labels = rng.integers(0, classes, n)
        out.append(fc.Site(name, power_scores(rng, labels), labels, n_classes=4))
    return out


def ties():
    """Five sites, six labels, scores in eighths; label 5 nowhere, "e" with three records."""
    rng, out = np.random.default_rng(2), []
    for k, (name, n) in enumerate(zip("abcde", (80, 40, 60, 120, 3), strict=True)):
        labels = np.minimum(rng.integers(0, 5, n), rng.integers(0, 5, n) + k % 2)
        guess = np.where(rng.random(n) < 0.7, labels, rng.integers(0, 6, n))
        scores = np.round(power_scores(rng, labels) * 8) / 8
        out.append(fc.Site(name, scores, labels, n_classes=6, predictions=guess))
    return out


def counts():
    """Four sites, three labels, with label counts of their own; "d" has one record."""
    rng, out = np.random.default_rng(3), []
    for name, n in zip("abcd", (50, 70, 30, 1), strict=True):
        labels = rng.integers(0, 3, n)
        own = rng.integers(0, 200, 3) * np.array([1, 1, name != "b"])
        scores = power_scores(rng, labels)
        out.append(fc.Site(name, scores, labels, n_classes=3, label_counts=own))
    return out


def probabilities(seed, n, n_classes=5):
    """Rows of whole numbers, divided by their sum."""
    drawn = np.random.default_rng(seed).integers(1, 60, (n, n_classes)) ** 2
    return drawn / drawn.sum(axis=1, keepdims=True)


def model(score=None):
    """Three sites with the output of a model, five named labels."""
    out = []
    for k, name in enumerate(("x", "y", "z")):
        p = probabilities(k, 40 + 20 * k)
        labels = (p.cumsum(axis=1) < np.random.default_rng(9 + k).random(len(p))[:, None]).sum(1)
        names = ("ant", "bee", "cat", "dog", "élan")
        out.append(fc.Site.from_probabilities(name, p, labels, score, seed=7, label_names=names))
    return out


FEDERATIONS = {"plain": plain, "ties": ties, "counts": counts, "model": model}


def methods(sites):
    """Every method, and every option that changes what is computed."""
    rows = tuple(k // 2 for k in range(sites[0].n_classes))
    priors = {s.name: (1 + s.calibration_counts) / (1 + s.calibration_counts).sum() for s in sites}
    steps = partial(M.DPFedCP, rounds=12, step=0.05)
    return {
        "dp-fedcp": M.DPFedCP(),
        "dp-fedcp rounds": M.DPFedCP(rounds=3),
        "dp-fedcp gamma": M.DPFedCP(gamma=0.01),
        "dp-fedcp subsample": M.DPFedCP(subsample=True),
        "dp-fedcp mixture": M.DPFedCP(mixture="counts"),
        "averaging": steps(),
        "averaging start": steps(start=0.5, average="all"),
        "averaging last": steps(average="last", participation=0.5),
        "averaging sites": steps(sites_per_round=2, local_steps=3),
        "paper": M.DPFedCP.paper(rounds=12),
        "pooled": M.Pooled(),
        "estimated": M.EstimatedWeights(),
        "estimated subsample": M.EstimatedWeights(subsample=True),
        "oracle": M.OracleWeights(priors),
        "oracle exact": M.OracleWeights(priors, weights="exact"),
        "oracle subsample": M.OracleWeights(priors, subsample=True),
        "quantile-average": M.QuantileAverage(),
        "quantile-of-quantiles": M.QuantileOfQuantiles(),
        "t-digest": M.TDigest(),
        "t-digest per label": M.TDigest(compression=20, per_label=True),
        "t-digest guaranteed": M.TDigest(compression=10, mode="guaranteed"),
        "local": M.Local(),
        "sketch": M.Sketch(),
        "sketch bins": M.Sketch(bins=64),
        "sketch edges": M.Sketch(bins=(0.0, 0.25, 0.5, 0.75, 1.0)),
        "sketch groups": M.Sketch(bins=64, groups=rows),
        "sketch most": M.Sketch(bins=64, most_per_site=200),
    }


def targets(sites):
    """Sites, groups of sites, and label mixes from outside."""
    first, last = sites[0].name, sites[-1].name
    n_classes = sites[0].n_classes
    outside = [10, 0, *range(3, n_classes + 1)]
    return {
        "sites": None,
        "groups": {"ends": [first, last], "one": first, "all": [s.name for s in sites]},
        "outside": {"counts": outside, "shares": (np.arange(1, n_classes + 1) / 100).tolist()},
    }


EVERYWHERE = ("dp-fedcp", "averaging", "estimated", "quantile-of-quantiles", "t-digest", "sketch")
"""Methods that the other federations are tried with, too; "ties" has them all."""


def exact_cases():
    """Results without privacy noise by name, each as a function without arguments."""
    out = {}
    for where, make in FEDERATIONS.items():
        sites = make()
        for how, method in methods(sites).items():
            for whom, target in targets(sites).items():
                if where == "ties" or how in EVERYWHERE:
                    out[f"{where}/{how}/{whom}"] = partial(
                        result, fc.calibrate, make, ALPHAS, method, target, seed=4
                    )
    for how, method in (("sketch", M.Sketch()), ("local", M.Local())):
        out[f"ties/{how}/certified"] = partial(
            result, fc.calibrate, ties, ALPHAS, method, seed=4, certify=0.95
        )
    out["plain/auto/sites"] = partial(result, fc.calibrate, plain, ALPHAS, "auto")
    for name in ("APS", "LAC", "Margin", "RAPS", "SAPS", "TopK"):  # those of version 0.1
        out[f"scores/{name}"] = partial(predictions, partial(model, fc.scores.ALL[name]()))
    out["personalise/exact"] = partial(personalised, fc.collect)
    return out


PRIVATE = fc.Privacy(25.0, 1e-5)
SUMMED = fc.Privacy(15.0, 1e-5, view="secure-sum")


def noisy_cases():
    """Results with the noise of a seed."""
    out = {}
    budgets = {
        "server": PRIVATE,
        "sum": SUMMED,
        "server small": fc.Privacy(6.0, 1e-5),
        "server add-remove": fc.Privacy(8.0, 1e-5, relation="add-remove"),
        "sum add-remove": fc.Privacy(3.0, 1e-6, relation="add-remove", view="secure-sum"),
    }
    sketches = {
        "bins": M.Sketch(bins=64),
        "groups": M.Sketch(bins=64, groups=("u", "u", "v", "v", "w", "w")),
        "confusion": M.Sketch(bins=64, confusion=True),
        "most": M.Sketch(bins=64, most_per_site=200),
    }
    for who, budget in budgets.items():
        for how, method in sketches.items():
            out[f"collect/{how}/{who}"] = partial(collected, 11, method, budget)
    site = fc.Privacy(50.0, 1e-5, unit="site")
    out["collect/most/site"] = partial(collected, 12, sketches["most"], site)
    run = partial(doors.calibrate, 13)
    for who in ("server", "sum"):
        given = {"privacy": budgets[who]}
        out[f"dp-fedcp/{who}"] = partial(result, run, plain, ALPHAS, M.DPFedCP(), **given)
        out[f"certified/{who}"] = partial(result, run, plain, ALPHAS, certify=0.9, **given)
        collect = partial(doors.collect, 14, **given)
        out[f"personalise/{who}"] = partial(personalised, collect)
    out["local"] = partial(result, fc.calibrate, plain, ALPHAS, M.Local(), privacy=PRIVATE)
    noises = {
        "gradients": M.DPFedCP.paper(rounds=6, gradient_noise=0.05),
        "counts": M.DPFedCP(count_noise=2.0),
        "both": M.DPFedCP(rounds=6, step=0.05, count_noise=3.5, gradient_noise=0.01),
        "exponential": M.ExponentialMechanism(epsilon=4.0, bins=100),
        "exponential fine": M.ExponentialMechanism(epsilon=30.0),
    }
    for how, method in noises.items():
        for where in ("plain", "ties"):
            out[f"{how}/{where}"] = partial(result, run, FEDERATIONS[where], ALPHAS, method, seed=4)
    return out


def simulated_cases():
    """Results over Flower's simulation; tens of seconds."""
    chosen = {
        "dp-fedcp": M.DPFedCP(),
        "pooled": M.Pooled(),
        "estimated": M.EstimatedWeights(),
        "sketch": M.Sketch(bins=64),
    }
    return {
        how: partial(result, simulated, plain, ALPHAS, method, seed=4)
        for how, method in chosen.items()
    }


def simulated(sites, *given, **options):
    return fc.calibrate(sites, *given, **options, engine=fc.engines.FlowerSimulation())


def result(run, make, *given, **options):
    """The calibrations of a run in bits; where a method refuses the targets, that it does."""
    try:
        found = run(make(), *given, **options)
    except fc.FedcoverError:
        return "refused"
    return {name: calibration_bits(cal) for name, cal in found.items()}


def collected(noise, method, privacy):
    """A sketch of "ties" with noise, and the calibrations of two sites from it."""
    sketch = doors.collect(noise, ties(), method, privacy)
    home = {s.name: sketch.personalise(s, ALPHAS) for s in ties()[:2]}
    return {
        "sketch": sketch_bits(sketch),
        **{name: calibration_bits(cal) for name, cal in home.items()},
    }


def personalised(collect):
    """Every way to say what a site's label mix is."""
    sites = ties()
    sketch = collect(sites, M.Sketch(bins=64, confusion=True))
    rng = np.random.default_rng(21)
    own, labels = sites[1], rng.integers(0, 5, 30)
    far = probabilities(22, 70, 6)
    ways = {
        "site": {"label_counts": own},
        "counts": {"label_counts": [4, 0, 9, 1, 1, 0], "name": "new"},
        "shares": {"label_counts": [0.5, 0.25, 0.125, 0.125, 0.0, 0.0]},
        "labels": {"labels": labels},
        "probabilities": {"probabilities": far},
        "source": {"probabilities": far, "source": [1, 1, 1, 1, 1, 1]},
        "blended": {"label_counts": own, "local_scores": own.scores},
        "blended stranger": {"labels": labels, "local_scores": rng.random(30), "name": "new"},
        "certified": {"label_counts": own, "certify": 0.9},
    }
    out = {"sketch": sketch_bits(sketch)}
    for how, given in ways.items():
        out[how] = calibration_bits(sketch.personalise(alpha=list(ALPHAS), **given))
    return out


def predictions(make):
    """Sets of new records, from calibrations of the model's output."""
    found = fc.calibrate(make(), ALPHAS, M.Pooled())["x"]
    p = probabilities(31, 50)
    sets = found.predict_set(p, seed=5)
    fixed = {} if getattr(found.score, "u", 0.5) is None else {"u": np.full(50, 0.25)}
    return {
        "calibration": calibration_bits(found),
        "sets": bits(np.asarray(sets.mask)),
        **{f"sets {k}": bits(found.predict_set(p, **{k: u}).mask) for k, u in fixed.items()},
    }


def bits(array):
    """Shape, type and digest of an array; None for None."""
    if array is None:
        return None
    array = np.ascontiguousarray(array)
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    return f"{array.dtype.str}{list(array.shape)} {digest}"


def calibration_bits(cal):
    """All numbers of a calibration; no sentences, which may be put better."""
    out = {
        "thresholds": bits(cal.thresholds),
        "distances": bits(cal.distances),
        "ratios": bits(cal.ratios),
        "error": bits(cal.coverage_error),
        "records": [cal.n_records, cal.n_sites, float(cal.effective_size).hex()],
        "cost": list(asdict(cal.cost).values()),
    }
    if cal.privacy is not None:
        out["epsilon"] = float(cal.privacy.epsilon).hex()
    if cal.certificate is not None:
        out["confidence"] = cal.certificate.confidence
    return out


def sketch_bits(sketch):
    """All numbers of a sketch."""
    table = sketch.table
    noises = (table.table_noise, table.label_noise, table.confusion_noise)
    return {
        "table": bits(table.table),
        "labels": bits(table.labels),
        "confusion": bits(table.confusion),
        "scale": table.scale,
        "noise": [[float(v).hex() for v in noise or ()] for noise in noises],
        "records": [table.records, sketch.n_records],
        "sites": list(sketch.sites),
        "cost": list(asdict(sketch.cost).values()),
        "epsilon": sketch.privacy and float(sketch.privacy.epsilon).hex(),
    }


def resumed_cases():
    """The run of Algorithm 1 that version 0.1 left before its eighth round, carried on.

    Its checkpoint knows every query to the last bit.
    """
    from tests.before import facts

    def go_on():
        with TemporaryDirectory() as folder:
            copy = shutil.copytree(facts.FILES / "interrupted", Path(folder) / "run")
            net = doors.Net(copy, doors.made(3), policy=doors.OPEN)
            server = facts.steps(net)
            fits = server.go()
            return {
                "thresholds": {name: bits(fit.thresholds) for name, fit in fits.items()},
                "first asked": min(envelope.number for _, envelope in net.asked("ask")),
                "rounds": server.coordinator.traffic.rounds,
            }

    return {"interrupted": go_on}


PARTS = {"exact": exact_cases, "noisy": noisy_cases, "simulated": simulated_cases}

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # small federations have many
    chosen = PARTS | {"resumed": resumed_cases}
    print(json.dumps({name: case() for name, case in chosen[sys.argv[1]]().items()}))
