"""The demo's figures: one per question, each with its answer in a sentence and its caption."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedcover import checks
from fedcover.demo import data, words
from fedcover.demo.experiment import LOCAL, OURS, Results
from fedcover.report import figures
from fedcover.report.page import Plot
from fedcover.report.style import NARROW, WIDE
from fedcover.scores import APS

Float64 = NDArray[np.float64]

SIZE_CLASSES = {"none": (0, 0), "1": (1, 1), "2": (2, 2), "3 or 4": (3, 4), "5 or more": (5, 10)}


def coverage(results: Results) -> Plot:
    """Does every hospital get its 1-α?"""
    target = 1 - results.alpha
    found = {name: results.coverages(name) for name in results.names}
    rows = [h.title for h in results.hospitals]

    def draw(width: float, columns: int) -> Figure:
        return figures.coverage(found, rows, target, width=width, columns=columns)

    short = {
        name: sum(e.verdict(target) == "below" for e in estimates)
        for name, estimates in found.items()
    }
    keepers = [name for name, es in found.items() if all(e.keeps(target) for e in es)]
    unclear = [name for name in found if not short[name] and name not in keepers]
    answer = " ".join(
        [
            f"On average, yes with {_and(keepers)}."
            if keepers
            else "With no method here for sure.",
            *(f"{name} falls short at {k} of {len(rows)}." for name, k in short.items() if k),
            *([f"{_and(unclear)}: too few splits to say."] if unclear else []),
        ]
    )
    caption = (
        f"Coverage at {len(rows)} hospitals, α = {results.alpha:g}, promise 1-α = "
        f"{words.promise(results.alpha)} (dashed). Marker: mean over {results.repetitions} random "
        "splits. Thick bar: 95% confidence interval of that mean (Student's t over the splits), "
        "often narrower than the marker. Thin line: the middle 90% of the splits, with the luck of "
        f"the calibration draw and of {data.TEST_SIZE} test records. Triangles: the interval "
        "excludes the promise and the mean is off by more than α/10. Calibration records: "
        f"{_sizes(results)}. The promise is an average over splits; all methods but Local and "
        "Global need label shift, which holds here by construction."
    )
    if words.at_small(results, LOCAL).verdict(target) == "above":
        steps = data.SMALL.size + 1
        caption += (
            f" {LOCAL} lies above at {data.SMALL.title} because {data.SMALL.size} records allow "
            f"coverages in steps of 1/{steps} only."
        )
    alt = "Coverage by method and hospital. " + _in_words(
        {
            name: {h: words.percent(e.mean) for h, e in zip(rows, es, strict=True)}
            for name, es in found.items()
        }
    )
    return Plot(
        "Does every hospital get what was promised?",
        answer,
        "coverage",
        draw(WIDE, 3),
        draw(NARROW, 2),
        caption,
        alt,
    )


def set_sizes(results: Results) -> Plot:
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

    def draw(width: float, columns: int) -> Figure:
        return figures.set_sizes(
            panels, by_site, results.names, list(SIZE_CLASSES), width=width, columns=columns
        )

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
    return Plot(
        "How big are the sets?", answer, "set-sizes", draw(WIDE, 3), draw(NARROW, 2), caption, alt
    )


def score_curves(results: Results) -> Plot:
    """Do labels differ in difficulty?"""
    scores, covered, order = difficulty(results)
    target = 1 - results.alpha
    panels = {f"digit {data.LABEL_NAMES[k]}": scores[k] for k in order}

    def draw(width: float, columns: int) -> Figure:
        return figures.score_curves(
            panels, results.global_threshold, target, width=width, columns=columns
        )

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
        f"1-α = {words.promise(results.alpha)}. The methods promise coverage at a hospital, not "
        "for each digit."
    )
    alt = "Share of each digit covered by one threshold for all: " + ", ".join(
        f"digit {k} {covered[k]:.0%}" for k in order
    )
    return Plot(
        "Do labels differ in difficulty?",
        answer,
        "scores-by-label",
        draw(WIDE, 5),
        draw(NARROW, 2),
        caption,
        alt,
    )


def label_mix(results: Results) -> Plot:
    """How different are the hospitals?"""
    _, _, order = difficulty(results)
    shares = np.array([h.prior for h in results.hospitals])[:, order]
    rows = [f"{h.title} ({h.size})" for h in results.hospitals]

    def draw(width: float) -> Figure:
        return figures.label_mix(
            shares,
            rows,
            [data.LABEL_NAMES[k] for k in order],
            xlabel="digit (easiest to hardest for the model)",
            ylabel="hospital (records)",
            width=width,
        )

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
        "the mix, Estimated weights and DP-FedCP estimate it from the counts of the calibration "
        f"labels (at {data.SMALL.title}, from {data.SMALL.size}). Assumption of all three: an "
        "image of a digit looks alike at every hospital."
    )
    alt = "Label mix by hospital. " + _in_words(
        {h.title: {f"digit {k}": f"{h.mix[k]}%" for k in order} for h in results.hospitals}
    )
    return Plot(
        "How different are the hospitals?",
        answer,
        "label-mix",
        draw(WIDE),
        draw(NARROW),
        caption,
        alt,
    )


def difficulty(results: Results) -> tuple[list[Float64], list[float], list[int]]:
    """Scores of each digit, the share the Global threshold covers, and digits from easy to hard."""
    fed = results.federation
    values = APS().of_labels(
        fed.probs, fed.labels, seed=checks.generator(results.seed, "demo", "figure")
    )
    scores = [values[fed.labels == k] for k in range(len(data.LABEL_NAMES))]
    covered = [float((v <= results.global_threshold).mean()) for v in scores]
    order = sorted(range(len(scores)), key=lambda k: -covered[k])
    return scores, covered, order


def _sizes(results: Results) -> str:
    return ", ".join(f"{h.title} {h.size}" for h in results.hospitals)


def _in_words(table: dict[str, dict[str, str]]) -> str:
    """A table of values as sentences, for readers who cannot see the figure."""
    return " ".join(
        f"{row}: {', '.join(f'{name} {value}' for name, value in cells.items())}."
        for row, cells in table.items()
    )


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
