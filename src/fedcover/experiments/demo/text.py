"""The demo in words, every number from the results: sentences, what leaves a site, the glossary."""

from __future__ import annotations

import numpy as np

from fedcover.calibration import Calibration
from fedcover.experiments.demo import data
from fedcover.experiments.demo.results import (
    CERTIFIED,
    CONFIDENCE,
    DELTA,
    ESTIMATED,
    GLOBAL,
    LOCAL,
    ORACLE,
    OURS,
    PRIVATE,
    PUBLISHED,
    SKETCH,
    DemoResults,
    budget,
)
from fedcover.report.estimate import Estimate, over_repetitions
from fedcover.report.page import Table, Text

SIMULATION = (
    "This is a simulation on one machine: rounds and bytes are counted as a network would see "
    "them, and nothing was sent."
)


SKETCHES = (SKETCH, PRIVATE, CERTIFIED)


SEEDED = (
    f"{PRIVATE}: for one record replaced, against who sees the sum (δ = {DELTA:g}). Its "
    "noise comes from the seed here, so that the run can be repeated; a real run takes it from the "
    "operating system, and only then ε holds."
)


def the_name(results: DemoResults) -> str:
    """What DP stands for, and who has it."""
    return (
        f"{OURS} is the name the method has in its paper; as it runs here it claims no "
        f"differential privacy (DP). {PRIVATE} does, with ε = {budget(results.alpha).epsilon:g}."
    )


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def promise(alpha: float) -> str:
    """1-α in percent, without decimals where it has none."""
    whole = abs(100 * alpha - round(100 * alpha)) < 1e-9
    return percent(1 - alpha, 0 if whole else 1)


def coverage(e: Estimate) -> str:
    """Mean and half-width of its confidence interval, in percent."""
    return f"{100 * e.mean:.1f} ± {100 * e.half_width:.1f}"


def size(e: Estimate) -> str:
    return f"{e.mean:.2f} ± {e.half_width:.2f}"


def data_size(n: float) -> str:
    """A number of bytes, short."""
    for unit in ("B", "kB", "MB"):
        if n < 999.5:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 99.5 else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} GB"


def fraction(value: float) -> str:
    """A small number in words where there is a plain one."""
    return "one millionth" if value == 1e-6 else f"{value:.2g}"


def calibration(results: DemoResults, method: str) -> Calibration:
    """What a method made for the small site in the last split."""
    return results.calibrations[method][data.SMALL.name]


def gamma(results: DemoResults) -> float:
    """How far a threshold of DP-FedCP may lie from the exact one, which is a record's score."""
    return float(calibration(results, OURS).options["gamma"])


def epsilon(results: DemoResults, method: str) -> str:
    """ε of a method's privacy statement; without one, whether there was need of it."""
    value = getattr(calibration(results, method).privacy, "epsilon", None)
    if value is not None:
        return f"{value:g}"
    sent = results.bytes_up[results.names.index(method)] > 0
    return "no guarantee" if sent else "nothing sent"


def lowest(results: DemoResults, method: str) -> tuple[data.Hospital, Estimate]:
    """The site with the lowest mean coverage."""
    pairs = zip(results.hospitals, results.coverages(method), strict=True)
    return min(pairs, key=lambda pair: pair[1].mean)


def at_small(results: DemoResults, method: str) -> Estimate:
    """Coverage at the small site."""
    return results.coverages(method)[results.hospitals.index(data.SMALL)]


def reading(results: DemoResults) -> list[str]:
    """The table in plain sentences."""
    return [
        _about_global(results),
        _about_ours(results),
        over_local(results),
        same_thresholds(results),
        about_sketches(results),
    ]


def headline(results: DemoResults) -> str:
    """The result in one line."""
    promised = promise(results.alpha)
    hospital, worst = lowest(results, GLOBAL)
    wrong = worst.verdict(1 - results.alpha) == "below"
    kept = all(e.keeps(1 - results.alpha) for e in results.coverages(OURS))
    if wrong:
        low = f"{hospital.title} {percent(worst.mean)}"
        first = f"gives {low} on average instead of the promised {promised}"
    elif worst.keeps(1 - results.alpha):
        first = f"keeps the promised {promised} on average at every hospital here"
    else:
        everywhere = _range(results.coverages(GLOBAL))
        first = f"gives the hospitals {everywhere} on average, promised {promised}"
    ours = f"every hospital its {promised}" if kept else f"them {_range(results.coverages(OURS))}"
    return f"One threshold for all ({GLOBAL}) {first}. {OURS} gives {ours} on average."


def _about_global(results: DemoResults) -> str:
    target = 1 - results.alpha
    by_site = list(zip(results.hospitals, results.coverages(GLOBAL), strict=True))
    below = [(h, e) for h, e in by_site if e.verdict(target) == "below"]
    above = [(h, e) for h, e in by_site if e.verdict(target) == "above"]
    text = f"{GLOBAL} promises {promise(results.alpha)}"
    text += (
        f" but on average gives {_list(below)}" if below else " and falls short at no hospital here"
    )
    if above:
        text += f"; {_list(above)} {'get' if len(above) > 1 else 'gets'} more than needed"
    return text + "."


def _about_ours(results: DemoResults) -> str:
    m = results.names.index(OURS)
    leaves = (
        "raw scores leave the sites"
        if results.methods[OURS].shares_scores
        else "no raw score leaves a site"
    )
    return (
        f"{OURS} gives the hospitals {_range(results.coverages(OURS))} on average in "
        f"{results.rounds[m]:.0f} rounds, and {leaves}."
    )


def over_local(results: DemoResults) -> str:
    """What DP-FedCP buys over Local, and for what."""
    small = results.hospitals.index(data.SMALL)
    ours, alone = (results.size[:, results.names.index(n)] for n in (OURS, LOCAL))
    saved = over_repetitions(alone[:, small] - ours[:, small])
    sets = "smaller sets" if saved.low > 0 else "larger sets" if saved.high < 0 else "sets as large"
    at = [at_small(results, n) for n in (OURS, LOCAL)]
    wide = [round(e.most - e.least, 3) for e in at]
    spread = "a narrower" if wide[0] < wide[1] else "a wider" if wide[0] > wide[1] else "the same"
    others = np.delete((alone - ours).mean(axis=0), small)
    return (
        f"Compared with {LOCAL}, {OURS} gives {data.SMALL.title}, which has {data.SMALL.size} "
        f"records, {sets} ({ours[:, small].mean():.2f} labels on average, {LOCAL}: "
        f"{alone[:, small].mean():.2f}) and {spread} spread (middle 90% of the splits "
        f"{_spread(at[0])}, {LOCAL}: {_spread(at[1])}); at the other hospitals the sets differ by "
        f"at most {np.abs(others).max():.2f} labels. In return, exact counts leave every site and "
        "a record of one label must look alike everywhere."
    )


def same_thresholds(results: DemoResults) -> str:
    """How far apart the rows of DP-FedCP and of Estimated weights are, and why."""
    near = results.apart <= gamma(results)
    how = f"at most {fraction(gamma(results))}" if near else f"up to {results.apart:.2g}"
    return (
        f"{OURS} and {ESTIMATED} agree by design: their thresholds differ by {how} in "
        f"all {results.repetitions} splits, but {ESTIMATED} sends every score to the server for it."
    )


def about_sketches(results: DemoResults) -> str:
    """What one round gives, what its noise costs, and what the certificate costs."""
    small = results.hospitals.index(data.SMALL)
    size = {n: results.size[:, results.names.index(n), small].mean() for n in SKETCHES}
    up = data_size(results.bytes_up[results.names.index(SKETCH)])
    spent = f"ε = {budget(results.alpha).epsilon:g}"
    return (
        f"{SKETCH} gives the hospitals {_range(results.coverages(SKETCH))} on average in one "
        f"round, of {up} a site. {PRIVATE} adds noise for {spent} and gives them "
        f"{_range(results.coverages(PRIVATE))}. {CERTIFIED} promises more: "
        f"{promise(results.alpha)} or more with probability {promise(1 - CONFIDENCE)}, not on "
        f"average. It pays with larger sets: {size[CERTIFIED]:.2f} labels at {data.SMALL.title} "
        f"({SKETCH}: {size[SKETCH]:.2f}, {PRIVATE}: {size[PRIVATE]:.2f})."
    )


def too_few(results: DemoResults) -> list[str]:
    """Where there were too few records for α."""
    return [
        f"{method} had too few records for α = {results.alpha:g} at {site.title()} in {count} of "
        f"{results.repetitions} repetitions: the labels concerned are then in every set."
        for (method, site), count in results.too_few.items()
    ]


def listed(parts: list[str]) -> str:
    """One, two and three."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _range(estimates: list[Estimate]) -> str:
    low, high = min(e.mean for e in estimates), max(e.mean for e in estimates)
    return f"{100 * low:.1f} to {100 * high:.1f}%"


def _spread(e: Estimate) -> str:
    return f"{100 * e.least:.0f} to {100 * e.most:.0f}%"


def _list(pairs: list[tuple[data.Hospital, Estimate]]) -> str:
    in_order = sorted(pairs, key=lambda p: p[1].mean)
    return listed([f"{h.title} {percent(e.mean)}" for h, e in in_order])


GLOSSARY = {
    "Set": "the list of labels returned for one record. Coverage is the share of records whose "
    "true label is in their set.",
    "α": "the share of sets that may miss the true label: α = {alpha:g} here, so {promise} are "
    "promised.",
    "Score": "how surprising a label is to the model for one record, from 0 (expected) to 1. Here "
    "APS (adaptive prediction sets): the probability of all likelier labels plus a random part of "
    "the label's own.",
    "Threshold": "labels with a score up to it are in the set. Calibration finds it from records "
    "whose true label is known.",
    "Weight": "how much more frequent a label is at one hospital than among the records of all.",
    "Label shift": "hospitals differ in how often each label occurs, but a record of one label "
    "looks alike everywhere.",
    "Server": "whoever asks the hospitals and works out the thresholds.",
    "Round": "one exchange: the server asks, and every hospital (site) answers once.",
    "Split": "one random draw of every hospital's calibration and test records; there are "
    "{repetitions}.",
    "ε": "how much one record can change what is sent, as differential privacy measures it: the "
    "smaller, the better protected. Only the private sketch states one.",
    OURS: "finds thresholds for each hospital's own mix without collecting the scores. The name is "
    "the paper's; as it runs here it claims no differential privacy (DP).",
    SKETCH: "one table of counts, label × score, summed over all hospitals; each makes its "
    "thresholds from the sum, without another message.",
    "Secure sum": "a way to add up in which the server sees the total and no single part.",
    "Certificate": "the promise of 1-α or more with a stated probability instead of on average.",
}


def glossary(results: DemoResults) -> Text:
    """The glossary, before the first table."""
    numbers = {
        "alpha": results.alpha,
        "promise": promise(results.alpha),
        "repetitions": results.repetitions,
    }
    terms = [(term, meaning.format(**numbers)) for term, meaning in GLOSSARY.items()]
    return Text("Words used here", terms=terms, boxed=True)


_WEIGHTED = "At the end, its file: thresholds and label weights."
_SUMMED = "At the end, the table of all hospitals together, from which it makes its thresholds."
RECEIVES = {
    LOCAL: "Nothing: it finds its threshold by itself.",
    GLOBAL: "At the end, its file: one threshold for all.",
    ORACLE: _WEIGHTED,
    ESTIMATED: _WEIGHTED,
    OURS: f"In each round, label weights of all hospitals and the scores asked about. {_WEIGHTED}",
    PUBLISHED: "In each round, label weights of all hospitals and the thresholds so far. "
    + _WEIGHTED,
    SKETCH: _SUMMED,
    PRIVATE: f"What the secure sum needs, then the noisy sum. {_SUMMED}",
    CERTIFIED: _SUMMED,
}

IN_THE_FILE = {
    "one threshold per label, and its distance to 1": ("thresholds", "distances"),
    "one weight per label": ("ratios",),
    "how many records and hospitals took part": ("n_records", "n_sites", "effective_size"),
    "the hospital's name and the names of the labels": ("target", "label_names"),
    "how it was made (α, score, method, options, rounds and bytes)": (
        "alpha",
        "score",
        "temperature",
        "method",
        "options",
        "cost",
    ),
    "what it promises and reveals, and warnings": (
        "guarantee",
        "reveals",
        "shares_scores",
        "coverage_error",
        "certificate",
        "privacy",
        "notes",
    ),
    "who signed it": ("signatures",),
}
"""What the saved file of a Calibration holds, in words, and the fields they stand for."""


def disclosure(results: DemoResults) -> Table:
    """Who receives what, by method."""
    rows = [
        [
            name,
            sentence(calibration(results, name).reveals),
            RECEIVES[name],
            f"{data_size(results.bytes_up[m])} up\n{data_size(results.bytes_down[m])} down",
            epsilon(results, name),
        ]
        for m, name in enumerate(results.names)
    ]
    answer = (
        "Replies go to the server and to nobody else. It sees those of each hospital separately, "
        f"but for {PRIVATE}: there it sees a secure sum, the total of all hospitals. Over a "
        "network, Flower with node keys makes such a sum."
        f"\n{SIMULATION} The table says who would receive what."
    )
    records = sum(h.size for h in results.hospitals) / len(results.hospitals)
    caption = (
        f"Bytes: payload of an average site, which has {records:.0f} calibration records, for all "
        f"{len(results.hospitals)} hospitals' thresholds together, without the final file. What "
        f"pooling sends grows with the records; what {OURS} sends does not, so with few records it "
        "may send more bytes, but no raw score. “No guarantee”: something leaves, and no ε "
        "limits what it may betray. “Nothing sent”: no ε is needed."
    )
    return Table(
        "What leaves each site, and who receives it",
        ["Method", "The server receives from each site", "Each site receives", "Bytes", "ε"],
        rows,
        caption,
        answer,
        strong=[OURS],
        text_columns=["The server receives from each site", "Each site receives"],
    )


def caveats(results: DemoResults) -> Text:
    """What can be learned although no raw score leaves."""
    hospital, label, count = rarest(results)
    near = fraction(gamma(results))
    terms = [
        (
            "Label counts are exact",
            f"With every method but {LOCAL} and {PRIVATE} the server learns how many records of "
            "each label every hospital has. A rare diagnosis is visible even with count 1; the "
            f"smallest count above zero in the last split was {count}, of digit {label} at "
            f"{hospital.title}.",
        ),
        (
            "A threshold is nearly one record's score",
            f"Each final threshold lies within {near} of the score of a single record (a threshold "
            "of 1 may belong to none). The replies show the server which hospital holds it and, as "
            "a rule, its label; the thresholds stand in the file below.",
        ),
        (
            "Hospitals learn about each other",
            "Every hospital receives the label weights of all. With its own counts it can work "
            "out how often each label it has seen itself occurs at each of the others.",
        ),
        (
            f"What is in the file handed over (calibrations/{data.SMALL.name}.json and so on)",
            f"{sentence('; '.join(IN_THE_FILE))} No record, no list of scores and no "
            "label count; but weights and own counts together give the label mix of all hospitals "
            "combined. The site-*.npz hold the records themselves: in earnest they "
            "would never leave their hospital.",
        ),
        (
            "No ε is claimed",
            f"{OURS} adds no noise here, so nothing limits what may be inferred about a single "
            f"person. {the_name(results)}",
        ),
    ]
    return Text(f"What {OURS} can still give away", terms=terms)


def rarest(results: DemoResults) -> tuple[data.Hospital, str, int]:
    """The smallest label count above zero in the last split: whose, which label, how many."""
    counted = []
    for hospital, rows in zip(results.hospitals, results.split.calibration, strict=True):
        counts = np.bincount(results.federation.labels[rows], minlength=len(data.LABEL_NAMES))
        counted += [
            (hospital, name, int(n)) for name, n in zip(data.LABEL_NAMES, counts, strict=True) if n
        ]
    return min(counted, key=lambda item: item[2])


def sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."
