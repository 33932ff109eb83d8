"""The demo as an experiment: its repetitions, and what the results say in figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.experiments.demo import data, text
from fedcover.experiments.demo.results import (
    CERTIFIED,
    CONFIDENCE,
    LOCAL,
    OURS,
    PUBLISHED,
    DemoResults,
    rows_of,
)
from fedcover.experiments.records import Results
from fedcover.experiments.study import Agreement, Row
from fedcover.report.figures import charts as figures
from fedcover.report.page import Plot, Section, Table, Text, responsive
from fedcover.scores import APS

Float64 = NDArray[np.float64]

SIZE_CLASSES = {"none": (0, 0), "1": (1, 1), "2": (2, 2), "3 or 4": (3, 4), "5 or more": (5, 10)}


@dataclass(frozen=True)
class DemoStudy:
    """Five hospitals, real data, every method side by side.

    alpha : the error rate α.
    """

    alpha: float = 0.1
    name: ClassVar[str] = "demo"
    title: ClassVar[str] = "Five hospitals: who gets what was promised?"
    repetitions: ClassVar[int] = 100
    quick: ClassVar[int] = 10

    def settings(self) -> dict[str, Any]:
        return {
            "alpha": self.alpha,
            "hospitals": [h.name for h in data.HOSPITALS],
            "sizes": [h.size for h in data.HOSPITALS],
            "n_test": data.TEST_SIZE,
            "score": "APS, random U",
        }

    def repetition(self, seed: int, r: int) -> list[Row]:
        return rows_of(self.alpha, seed, r)

    def sections(self, results: Results) -> Sequence[Section]:
        return sections(DemoResults.of(results))

    def agreement(self, results: Results) -> Sequence[Agreement]:
        return ()  # the paper has no such experiment


def sections(results: DemoResults) -> list[Section]:
    """All of them, in the order in which a reader would ask."""
    return [coverage(results), *after_the_figure(results)]


def after_the_figure(results: DemoResults) -> list[Section]:
    """What follows the figure of coverage."""
    return [
        text.glossary(results),
        _methods(results),
        _numbers(results),
        text.disclosure(results),
        text.caveats(results),
        set_sizes(results),
        score_curves(results),
        label_mix(results),
        _promises(results),
        _data(results),
    ]


def _methods(results: DemoResults) -> Table:
    small = data.SMALL.title
    rows = []
    for m, (name, method) in enumerate(results.methods.items()):
        where, worst = text.lowest(results, name)
        sizes = results.sizes(name)[results.hospitals.index(data.SMALL)]
        rows.append(
            [
                name,
                text.coverage(text.at_small(results, name)),
                f"{text.coverage(worst)}\n{where.title}",
                f"{text.size(sizes)}\nall sites {results.mean_size(name).mean:.2f}",
                f"{results.rounds[m]:.0f}",
                f"{text.data_size(results.bytes_up[m])} up\n"
                f"{text.data_size(results.bytes_down[m])} down",
                text.epsilon(results, name),
                "yes" if method.shares_scores else "no",
            ]
        )
    columns = [
        "Method",
        f"Coverage at {small}, %",
        "Lowest hospital, %",
        f"Labels per set at {small}",
        "Rounds",
        "Bytes per site",
        "Privacy (ε)",
        "Scores leave the site?",
    ]
    caption = (
        f"Mean over {results.repetitions} random splits at α = {results.alpha:g}; ± is half of "
        "its 95% confidence interval (Student's t over the splits). Tested on "
        f"{data.TEST_SIZE} records per hospital and split. Bytes are payload, for an average "
        "site. ε: “no guarantee” where something leaves and no differential privacy is claimed, "
        f"“nothing sent” where none is needed. {text.SEEDED} "
        f"“{PUBLISHED}” runs the published step size and number of rounds, which do not "
        "converge: the result depends on the start, q₀ = 0.5 here, which the paper does not state."
    )
    answer = "\n".join([*text.reading(results), text.SIMULATION])
    return Table("All methods side by side", columns, rows, caption, answer, strong=[OURS])


def _numbers(results: DemoResults) -> Table:
    """Coverage and size of every method at every site: the numbers behind the first figures."""
    rows = [
        [
            name,
            *(
                f"{text.coverage(c)}\n{text.size(s)} labels"
                for c, s in zip(results.coverages(name), results.sizes(name), strict=True)
            ),
        ]
        for name in results.names
    ]
    columns = ["Method", *(f"{h.title} ({h.size})" for h in results.hospitals)]
    caption = (
        "Coverage in percent, below it the mean number of labels per set; ± is half of the 95% "
        f"confidence interval of the mean over {results.repetitions} splits. In brackets: "
        "calibration records."
    )
    return Table(
        "Show the numbers for every hospital", columns, rows, caption, strong=[OURS], folded=True
    )


def _promises(results: DemoResults) -> Text:
    paragraphs = [
        "A promise of this kind is an average, over the calibration records a hospital happened to "
        f"have and over its patients. It does not say that every label, or every single patient, "
        f"is covered {text.promise(results.alpha)} of the time.",
        "Methods that learn from other hospitals need label shift: a record of one label must look "
        "alike everywhere, and only the mix of labels may differ. Another scanner at one hospital "
        "breaks it, and then only Local still holds. In this demo it is true by construction.",
        *text.too_few(results),
    ]
    by_promise: dict[str, list[str]] = {}
    for name in results.names:
        promise = text.sentence(text.calibration(results, name).guarantee)
        by_promise.setdefault(promise, []).append(name)
    terms = [(", ".join(names), promise) for promise, names in by_promise.items()]
    return Text("What this promises, and when it does not hold", paragraphs, terms)


def _data(results: DemoResults) -> Text:
    fed = results.federation
    return Text(
        "Where the data come from",
        [
            "1,797 images of hand-written digits, 8 × 8 pixels, shipped with scikit-learn; the ten "
            f"digits stand for ten diagnoses. The model, a logistic regression, saw "
            f"{fed.n_training} of them with noise on every pixel, and only "
            f"{min(data.TRAINING_COUNTS)} each of the digits 1, 8 and 9. It is modest on purpose: "
            f"it is right on {text.percent(fed.accuracy, 0)} of the other {len(fed.labels):,} "
            "images.",
            f"In each of the {results.repetitions} splits, every hospital draws its calibration "
            f"labels and {data.TEST_SIZE} test labels from its own mix, then images of these "
            "labels. No image is at two hospitals, and no tested image is in any calibration set. "
            "The model is trained once, so the intervals say how sure the mean over splits is for "
            "this model and these images. Score: APS with random u.",
        ],
    )


def coverage(results: DemoResults) -> Plot:
    """Does every hospital get its 1-α?"""
    target = 1 - results.alpha
    estimates = {name: results.coverages(name) for name in results.names}
    rows = [h.title for h in results.hospitals]
    short = {name: sum(e.verdict(target) == "below" for e in es) for name, es in estimates.items()}
    keepers = [name for name, es in estimates.items() if all(e.keeps(target) for e in es)]
    unclear = [name for name in estimates if not short[name] and name not in keepers]
    answer = " ".join(
        [
            f"On average, yes with {text.listed(keepers)}."
            if keepers
            else "With no method here for sure.",
            *(f"{name} falls short at {k} of {len(rows)}." for name, k in short.items() if k),
            *([f"{text.listed(unclear)}: too few splits to say."] if unclear else []),
        ]
    )
    caption = (
        f"Coverage at {len(rows)} hospitals, α = {results.alpha:g}, promise 1-α = "
        f"{text.promise(results.alpha)} (dashed). Marker: mean over {results.repetitions} random "
        "splits. Thick bar: 95% confidence interval of that mean (Student's t over the splits), "
        "often narrower than the marker. Thin line: the middle 90% of the splits, with the luck of "
        f"the calibration draw and of {data.TEST_SIZE} test records. Triangles: the interval "
        "excludes the promise and the mean is off by more than α/10. Calibration records: "
        f"{_sizes(results)}. The promise is an average over splits; all methods but Local and "
        "Global need label shift, which holds here by construction. "
        f"{CERTIFIED} promises it with probability {text.promise(1 - CONFIDENCE)} instead."
    )
    if text.at_small(results, LOCAL).verdict(target) == "above":
        steps = data.SMALL.size + 1
        caption += (
            f" {LOCAL} lies above at {data.SMALL.title} because {data.SMALL.size} records allow "
            f"coverages in steps of 1/{steps} only."
        )
    alt = "Coverage by method and hospital. " + _in_words(
        {
            name: {h: text.percent(e.mean) for h, e in zip(rows, es, strict=True)}
            for name, es in estimates.items()
        }
    )
    question = "Does every hospital get what was promised?"
    drawn = figures.coverage, estimates, rows, target
    return responsive("coverage", question, answer, caption, alt, *drawn)


def set_sizes(results: DemoResults) -> Plot:
    """How big are the sets?"""
    total = results.size_counts.sum(axis=2, keepdims=True)
    shares = results.size_counts / total
    classes = np.stack(
        [shares[:, :, low : high + 1].sum(axis=2) for low, high in SIZE_CLASSES.values()], axis=2
    )
    means = results.size.mean(axis=0)
    panels = {h.title: classes[:, s] for s, h in enumerate(results.hospitals)}
    by_site = {h.title: means[:, s].tolist() for s, h in enumerate(results.hospitals)}
    panels["All hospitals"] = classes.mean(axis=1)
    by_site["All hospitals"] = means.mean(axis=1).tolist()

    m = results.names.index(OURS)
    low, high = int(means[m].argmin()), int(means[m].argmax())
    answer = (
        f"As big as the cases demand: {OURS} returns {means[m, low]:.1f} labels on average at "
        f"{results.hospitals[low].title} and {means[m, high]:.1f} at "
        f"{results.hospitals[high].title}."
    )
    caption = (
        f"Share of sets by number of labels, and mean number of labels, over {results.repetitions} "
        f"splits with {data.TEST_SIZE} test records each, α = {results.alpha:g}. Ten labels are "
        "possible. All hospitals: each counted once. Smaller sets are better only where coverage "
        "is kept: compare with the first figure. No guarantee is made for the size."
    )
    alt = "Mean set size by hospital and method. " + _in_words(
        {
            site: {n: f"{v:.1f}" for n, v in zip(results.names, values, strict=True)}
            for site, values in by_site.items()
        }
    )
    drawn = figures.set_sizes, panels, by_site, results.names, list(SIZE_CLASSES)
    return responsive("set-sizes", "How big are the sets?", answer, caption, alt, *drawn)


def score_curves(results: DemoResults) -> Plot:
    """Do labels differ in difficulty?"""
    scores, covered, order = difficulty(results)
    target = 1 - results.alpha
    panels = {f"digit {data.LABEL_NAMES[k]}": scores[k] for k in order}

    easiest, hardest = order[0], order[-1]
    answer = (
        f"Yes. One threshold for all covers {covered[easiest]:.0%} of the images of digit "
        f"{easiest}, but {covered[hardest]:.0%} of those of digit {hardest}."
    )
    caption = (
        "Empirical distribution of the APS score of the true label, one panel per digit, from the "
        f"easiest to the hardest; n = {min(map(len, scores))} to {max(map(len, scores))} images a "
        "digit, all that did not train the model. Dashed: the Global threshold, "
        f"{results.global_threshold:.2f} on average over {results.repetitions} splits at "
        f"α = {results.alpha:g}. Dot and number: the share of the digit that it covers. Dotted: "
        f"1-α = {text.promise(results.alpha)}. The methods promise coverage at a hospital, not "
        "for each digit."
    )
    alt = "Share of each digit covered by one threshold for all: " + ", ".join(
        f"digit {k} {covered[k]:.0%}" for k in order
    )
    question = "Do labels differ in difficulty?"
    drawn = figures.score_curves, panels, results.global_threshold, target
    return responsive("scores-by-label", question, answer, caption, alt, *drawn)


def label_mix(results: DemoResults) -> Plot:
    """How different are the hospitals?"""
    _, _, order = difficulty(results)
    shares = np.array([h.prior for h in results.hospitals])[:, order]
    rows = [f"{h.title} ({h.size})" for h in results.hospitals]

    hard = shares[:, -3:].sum(axis=1)
    low, high = int(hard.argmin()), int(hard.argmax())
    answer = (
        f"The three hardest digits are {hard[high]:.0%} of the cases at "
        f"{results.hospitals[high].title} and {hard[low]:.0%} at {results.hospitals[low].title}: "
        "that is why one threshold cannot serve both."
    )
    caption = (
        "True label mix of each hospital in percent; the stronger the colour, the more; in "
        f"brackets, calibration records. In each of the {results.repetitions} splits (α = "
        f"{results.alpha:g}) calibration and test labels are drawn from it. Oracle weights knows "
        "the mix; Estimated weights, DP-FedCP and the sketches estimate it from the counts of the "
        f"calibration labels (at {data.SMALL.title}, from {data.SMALL.size}). Assumption of all of "
        "them: an image of a digit looks alike at every hospital."
    )
    alt = "Label mix by hospital. " + _in_words(
        {h.title: {f"digit {k}": f"{h.mix[k]}%" for k in order} for h in results.hospitals}
    )
    return responsive(
        "label-mix",
        "How different are the hospitals?",
        answer,
        caption,
        alt,
        figures.label_mix,
        shares,
        rows,
        [data.LABEL_NAMES[k] for k in order],
        xlabel="digit (easiest to hardest for the model)",
        ylabel="hospital (records)",
    )


def difficulty(results: DemoResults) -> tuple[list[Float64], list[float], list[int]]:
    """Scores of each digit, the share the Global threshold covers, and digits from easy to hard."""
    fed = results.federation
    values = APS().of_labels(
        fed.probs, fed.labels, seed=checks.generator(results.seed, "demo", "figure")
    )
    scores = [values[fed.labels == k] for k in range(len(data.LABEL_NAMES))]
    covered = [float((v <= results.global_threshold).mean()) for v in scores]
    order = sorted(range(len(scores)), key=lambda k: -covered[k])
    return scores, covered, order


def _sizes(results: DemoResults) -> str:
    return ", ".join(f"{h.title} {h.size}" for h in results.hospitals)


def _in_words(table: dict[str, dict[str, str]]) -> str:
    """A table of values as sentences, for readers who cannot see the figure."""
    return " ".join(
        f"{row}: {', '.join(f'{name} {value}' for name, value in cells.items())}."
        for row, cells in table.items()
    )
