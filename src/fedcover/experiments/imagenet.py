"""Figures 3a, 5b and 6: eleven agents and a thousand labels of very different difficulty.

The data are the user's own file of logits, else the 5000 images in the folder that FEDCOVER_DATA
names, else a synthetic stand-in of full size, called so wherever its results are shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments.cifar10 import FIVE
from fedcover.experiments.compare import ALPHA, BUDGET, plain, rows_of
from fedcover.experiments.compare import COMPETITORS as EVERY
from fedcover.experiments.federations import Records, file_text, imagenet, read_records
from fedcover.experiments.records import Results
from fedcover.experiments.sections import (
    IMAGENET,
    answered,
    claim,
    coverage_histograms,
    method_table,
    number,
    ordered,
    published,
)
from fedcover.experiments.study import Agreement, Row
from fedcover.inputs import Floats
from fedcover.logits import softmax
from fedcover.privacy.randomness import SeededBytes
from fedcover.report.figures.charts import Line, lines, sideways
from fedcover.report.page import Section, Text, responsive
from fedcover.scores import APS

TEMPERATURE = 10.0
SHIFT = 0.9
SUBSET = "imagenet_val5k_resnet50_logits.npz"
FEWEST = 100
"""Classes that a file of logits must have here."""

STANDIN = "synthetic stand-in for ImageNet"

COMPETITORS = {m: c for m, c in EVERY.items() if m != "published, q₀ = 1"}
"""One start less than elsewhere: with 1000 labels a published run takes half a second."""

LEVELS = np.append(np.linspace(0, 0.95, 20), [0.975, 0.99, 0.999])
"""Levels of the score quantiles that Figure 6 is drawn from."""


def source(logits: Path | None) -> str | None:
    """The file to use: the user's, else the 5000 images of FEDCOVER_DATA, else None."""
    if logits is not None:
        return str(logits)
    folder = os.environ.get("FEDCOVER_DATA")
    subset = Path(folder) / SUBSET if folder else None
    return str(subset) if subset and subset.is_file() else None


@lru_cache(maxsize=2)
def records_of(path: str | None) -> Records:
    """Outputs of a file with a hundred classes or more; None for the synthetic stand-in."""
    if path is None:
        return Records.of(_standin(), 50_000, 1000)
    return read_records(path, TEMPERATURE, FEWEST, 100_000)


def _standin() -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    """Synthetic outputs of the size of ImageNet's validation set: 1000 labels × 50 records.

    Logits of the other labels are Gumbel with scale 2, that of the true label N(m, 5²) with m from
    13.24 (the hardest label) to 22.76, and a record's logits are scaled by a common e^N(0, .2²).
    With these numbers the top label is right as often, the scores have nearly the same quantiles,
    and the labels' mean scores differ as much as those of torchvision's ResNet-50 on 5000 images.
    """
    rng = np.random.default_rng([152, 50_000])
    strength = rng.permutation(np.linspace(13.24, 22.76, 1000))
    labels = rng.permutation(np.repeat(np.arange(1000), 50))
    for y in np.split(labels, 50):
        waits = np.maximum(rng.standard_exponential((1000, 1000), dtype=np.float32), 1e-9)
        z = 2 * (-np.log(waits) - np.float32(np.euler_gamma))  # Gumbel, centred
        z[np.arange(1000), y] = strength[y] + 5 * rng.standard_normal(1000)
        yield softmax(z * np.exp(0.2 * rng.standard_normal((1000, 1))), TEMPERATURE), y


def base_settings(path: str | None) -> dict[str, Any]:
    """What the experiments on this setting share."""
    records = records_of(path)
    fed = imagenet(records, APS(), SHIFT)
    hard = fed.priors[fed.target].argmax()
    return {
        "data": STANDIN if path is None else file_text(path),
        "synthetic": path is None,
        "alpha": ALPHA,
        "temperature": TEMPERATURE,
        "sizes": list(fed.sizes),
        "target": "agent 11",
        "records": len(records.labels),
        "labels": records.n_classes,
        "n_test": len(records.labels) - fed.pool,
        "n_sizes": round(len(records.panel) * (1 - fed.pool / len(records.labels))),
        "known_labels": f"{fed.labelled} per calibration record, for the label distributions",
        "records_per_hard_label": round(float(np.array(fed.sizes) @ fed.priors[:, hard]), 2),
        "u": "random U",
        "top_1": f"{100 * (records.above == 0).mean():.1f} %",
    }


def below(results: Results) -> str:
    """What a caption says about the run: n, α, repetitions and the data."""
    run = results.settings
    return (
        f"{results.repetitions} repetitions, α = {ALPHA}, n = {sum(run['sizes']):,} calibration "
        f"records, {run['sizes'][-1]} of them at agent 11, and {run['n_test']:,} test "
        f"records; {run['data']}, temperature {TEMPERATURE:g}, random U."
    )


def marked(results: Results, title: str) -> str:
    """A title that says so where the data are synthetic."""
    return f"{title} (synthetic data)" if results.settings["synthetic"] else title


def origin(results: Results) -> Section:
    """Where the data come from, in words."""
    run = results.settings
    if run["synthetic"]:
        text = [
            "These are NOT ImageNet results, but a synthetic stand-in: 50,000 records of 1000 "
            "labels of very different difficulty, made so that the top label is right as often, "
            "the scores have nearly the same quantiles and the labels differ as much as in the "
            f"outputs of a public ResNet-50 on 5000 images. The top label is right for "
            f"{run['top_1']}.",
            "For the real experiment make the logits with examples/imagenet and give them with "
            "--logits.",
        ]
    else:
        text = [
            f"The {run['data']}: {run['records']:,} records, {run['labels']} labels; the top "
            f"label is right for {run['top_1']}. The paper used a ResNet-152 and 50,000 images."
        ]
    if _scarce(results):
        text.append(
            f"At 90 % shift a label of the harder half has {run['records_per_hard_label']:g} "
            "calibration records on average. A weighted method puts a label of which it has seen "
            "none into every set, so that on data as few as these it covers more than 1-α."
        )
    return Text("Which data are these?", text)


def _scarce(results: Results) -> bool:
    """Whether many labels go without a calibration record."""
    return bool(results.settings["records_per_hard_label"] < 4)


def apart(results: Results, row: Agreement) -> Agreement:
    """A row whose band says why the number may differ from the paper's."""
    synthetic = results.settings["synthetic"]
    why = "synthetic data, not ImageNet" if synthetic else "other outputs than the paper's"
    return replace(row, band=f"{row.band}; {why}")


def weighted(results: Results, row: Agreement) -> Agreement:
    """A row on a weighted method, which covers more where labels go without a record."""
    why = "; labels without a calibration record are in every set"
    return replace(row, band=row.band + why) if _scarce(results) else row


@dataclass(frozen=True)
class ImageNetStudy:
    """The paper's ImageNet setting, 90 % shift between easy and hard labels.

    path : a file of logits; None for the synthetic stand-in.
    """

    path: str | None = None
    name: ClassVar[str] = "imagenet"
    title: ClassVar[str] = "A thousand labels: who keeps the promise where they are hard?"
    repetitions: ClassVar[int] = 200
    quick: ClassVar[int] = 6

    def settings(self) -> dict[str, Any]:
        records = records_of(self.path)
        easy = imagenet(records, APS(), 1.0).priors[0] > 0
        scores = records.above + 0.5 * records.own
        quantiles = {
            f"score_quantiles_{g}": np.quantile(scores[group[records.labels]], LEVELS)
            for g, group in (("G1", easy), ("G2", ~easy))
        }
        return plain(
            {
                **base_settings(self.path),
                "shift": SHIFT,
                "methods": list(COMPETITORS),
                "budget": BUDGET,
                **{k: [round(float(x), 5) for x in v] for k, v in quantiles.items()},
            }
        )

    def repetition(self, seed: int, r: int) -> list[Row]:
        fed = imagenet(records_of(self.path), APS(), SHIFT)
        draw = fed.draw(np.random.default_rng([seed, r]))
        return rows_of(draw, COMPETITORS, SeededBytes(seed, r))

    def sections(self, results: Results) -> Sequence[Section]:
        cover = {m: results.values("coverage", method=m) for m in COMPETITORS}
        sizes, refused = answered({m: results.values("size", method=m) for m in COMPETITORS})
        hidden = sizes.get("Sketch, ε = 2")
        private = "refused" if hidden is None else f"{hidden.mean():.1f}"
        run, rest = results.settings, below(results)
        out: list[Section] = [
            origin(results),
            responsive(
                "imagenet-scores",
                marked(results, "How different are the two groups of labels?"),
                "Agents 1 to 10 hold mostly labels of G1, agent 11 mostly labels of G2.",
                f"Distribution functions of the scores, at the mean of U, of the {run['labels']} "
                f"labels' easier half (G1) and harder half (G2); n = {run['records']:,} "
                f"records; {run['data']}, temperature {TEMPERATURE:g}. The groups are the same "
                f"in all {results.repetitions} repetitions; α = {ALPHA}.",
                "Distribution functions of the scores in two groups of labels",
                lines,
                _curves(run),
                "score (share of probability)",
                "share of records with a smaller score",
                log="x",
                marks=False,
            ),
        ]
        others = tuple(m for m in COMPETITORS if m not in FIVE)
        for kinds, name, title in (
            (FIVE, "five", "Who covers 90 % at agent 11?"),
            (others, "ours", "And in one round, with privacy, or as published?"),
        ):
            values, where = {m: cover[m] for m in kinds}, "agent 11, 90 % shift"
            title = marked(results, title)
            out.append(coverage_histograms(f"imagenet-coverage-{name}", title, where, values, rest))
        out.append(
            responsive(
                "imagenet-sizes",
                marked(results, "How large are the sets?"),
                f"Global: {sizes['Global'].mean():.1f} labels on average, DP-FedCP "
                f"{sizes['DP-FedCP'].mean():.1f}, Sketch at ε = 2 "
                f"{private}.",
                "Mean number of labels in a set, logarithmic scale, measured on about "
                f"{run['n_sizes']} test records: {rest} White mark: median; bar: middle half of "
                f"the repetitions.{refused}",
                "Violins of the mean set size by method",
                sideways,
                sizes,
                "mean set size (labels)",
                log=True,
            )
        )
        title = marked(results, "All methods in numbers")
        out.append(method_table(results, list(COMPETITORS), {"90 % shift": {}}, title, rest))
        return out

    def agreement(self, results: Results) -> Sequence[Agreement]:
        get = {m: results.values("coverage", method=m) for m in COMPETITORS}
        ours, target = get["DP-FedCP"], IMAGENET["DP-FedCP"]
        near = {"DP-FedCP (ours)": ours, "Oracle": get["Oracle"], "Estimated": get["Estimated"]}
        spread = claim(
            "Fig. 3a",
            "spread of DP-FedCP (ours)",
            f"sd ≈ {IMAGENET['DP-FedCP sd']:.3f}",
            f"sd {ours.std():.3f}",
            "within 0.004",
            agrees=abs(ours.std() - IMAGENET["DP-FedCP sd"]) <= 0.004,
        )
        rows = [
            apart(results, number("Fig. 3a", "Global", IMAGENET["Global"], get["Global"], 0.02)),
            ordered("Fig. 3a", get["Global"], ours),
            *(weighted(results, number("Fig. 5b", m, target, v, 0.01)) for m, v in near.items()),
            apart(results, spread),
            *published("Fig. 3a", {q: get[f"published, q₀ = {q}"] for q in ("0", "0.5")}),
        ]
        return [replace(a, what=marked(results, a.what)) for a in rows]


def _curves(run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{g}: {half} half of the labels": Line(np.array(run[f"score_quantiles_{g}"]), LEVELS)
        for g, half in (("G1", "easier"), ("G2", "harder"))
    }
