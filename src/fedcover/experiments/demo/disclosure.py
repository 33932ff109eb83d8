"""What leaves each site, for whoever must agree to it: a table of who receives what, and what can
be learned from it all the same."""

from __future__ import annotations

import numpy as np

from fedcover.experiments.demo import data, text
from fedcover.experiments.demo.results import (
    ESTIMATED,
    GLOBAL,
    LOCAL,
    ORACLE,
    OURS,
    PUBLISHED,
    DemoResults,
)
from fedcover.report.page import Table, Text

_WEIGHTED = "At the end, its file: thresholds and label weights."
RECEIVES = {
    LOCAL: "Nothing: it finds its threshold by itself.",
    GLOBAL: "At the end, its file: one threshold for all.",
    ORACLE: _WEIGHTED,
    ESTIMATED: _WEIGHTED,
    OURS: f"In each round, label weights of all hospitals and the scores asked about. {_WEIGHTED}",
    PUBLISHED: "In each round, label weights of all hospitals and the thresholds so far. "
    + _WEIGHTED,
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
}
"""What the saved file of a Calibration holds, in words, and the fields they stand for."""


def table(results: DemoResults) -> Table:
    """Who receives what, by method."""
    rows = [
        [
            name,
            sentence(text.calibration(results, name).reveals),
            RECEIVES[name],
            f"{text.data_size(results.bytes_up[m])} up\n"
            f"{text.data_size(results.bytes_down[m])} down",
            text.epsilon(results, name),
        ]
        for m, name in enumerate(results.names)
    ]
    answer = (
        "Replies go to the server and to nobody else. It sees those of each hospital separately: "
        "the demo makes no secure sum, which would show it only their sum (fedcover collect "
        "--view secure-sum, or Flower with node keys)."
        f"\n{text.SIMULATION} The table says who would receive what."
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
    near = text.fraction(text.gamma(results))
    terms = [
        (
            "Label counts are exact",
            f"With every method but {LOCAL} the server learns how many records of each label every "
            "hospital has. A rare diagnosis is visible even with count 1; the smallest count "
            f"above zero in the last split was {count}, of digit {label} at {hospital.title}.",
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
            f"What is in the file handed over ({data.SMALL.name}.json and so on)",
            f"{sentence('; '.join(IN_THE_FILE))} No record, no list of scores and no "
            "label count; but weights and own counts together give the label mix of all hospitals "
            "combined. The site-*.npz beside it hold the records themselves: in earnest they "
            "would never leave their hospital.",
        ),
        (
            "No ε is claimed",
            "Nothing here limits what may be inferred about a single person, because no noise is "
            f"added. {text.THE_NAME}",
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
