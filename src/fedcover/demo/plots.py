"""The demo's figures: one per question, each with its answer in a sentence and its caption."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedcover import checks
from fedcover.demo import data, words
from fedcover.demo.experiment import OURS, Results
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
        name: [
            f"{h.title} {words.percent(e.mean)}"
            for h, e in zip(results.hospitals, estimates, strict=True)
            if e.verdict(target) == "below"
        ]
        for name, estimates in found.items()
    }
    keepers = [name for name, sites in short.items() if not sites]
    answer = (f"With {_and(keepers)}, yes. " if keepers else "With no method here. ") + " ".join(
        f"{name} falls short at {len(sites)} of {len(rows)}."
        for name, sites in short.items()
        if sites
    )
    caption = (
        f"Coverage at {len(rows)} hospitals, promise 1-α = {words.promise(results.alpha)} "
        f"(dashed). Marker: mean over {results.repetitions} random splits. Thick bar: 95% confidence "
        "interval of that mean (Student's t over the splits), often narrower than the marker. Thin "
        "line: the middle 90% of the splits, with the luck of the calibration draw and of "
        f"{data.TEST_SIZE} test records. Triangles: the mean is more than one point off and the "
        f"interval excludes {words.promise(results.alpha)}. Calibration records: {_sizes(results)}. "
        "The promise is an average over splits; all methods but Local and Global need label shift, "
        "which holds here by construction."
    )
    alt = "Coverage by method and hospital. " + " ".join(
        f"{name}: "
        + ", ".join(
            f"{h.title} {words.percent(e.mean)}" for h, e in zip(results.hospitals, es, strict=True)
        )
        + "."
        for name, es in found.items()
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
    easy, hard = int(means[m].argmin()), int(means[m].argmax())
    answer = (
        f"As big as the cases demand: {OURS} returns {means[m, easy]:.1f} labels on average at "
        f"{results.hospitals[easy].title} and {means[m, hard]:.1f} at {results.hospitals[hard].title}."
    )
    caption = (
        f"Share of sets by number of labels, and mean number of labels, over {results.repetitions} "
        f"splits with {data.TEST_SIZE} test records each, α = {results.alpha:g}. Ten labels are "
        "possible. All hospitals: each counted once. Smaller sets are better only where coverage is kept: compare with the figure "
        "above. No guarantee is made for the size."
    )
    alt = "Set sizes by hospital and method. " + " ".join(
        f"{site}: "
        + ", ".join(f"{n} {v:.1f}" for n, v in zip(results.names, values, strict=True))
        + "."
        for site, values in by_site.items()
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
        f"Yes. One threshold for all covers {covered[easiest]:.0%} of the images of digit {easiest}, "
        f"but {covered[hardest]:.0%} of those of digit {hardest}."
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
            xlabel="digit, from the easiest to the hardest for the model",
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
        "True label mix of each hospital in percent; darker is more; in brackets, calibration "
        "records. Calibration and test labels are drawn from it. Oracle weights knows the mix, "
        "Estimated weights and DP-FedCP estimate it from the counts of the calibration labels "
        f"(at {data.SMALL.title}, from {data.SMALL.size}). Assumption of all three: an image of a "
        "digit looks alike at every hospital."
    )
    alt = "Label mix by hospital. " + " ".join(
        f"{h.title}: " + ", ".join(f"{k} {h.mix[k]}%" for k in order) + "."
        for h in results.hospitals
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


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
