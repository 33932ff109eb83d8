"""The words of the demo's report, each in one plain clause."""

from __future__ import annotations

from fedcover.demo import words
from fedcover.demo.experiment import OURS, Results
from fedcover.report.page import Text

TERMS = {
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
    "smaller, the better protected. No method here states one.",
    OURS: "finds thresholds for each hospital's own mix without collecting the scores. The name is "
    "the paper's; no differential privacy (DP) is claimed here.",
}


def box(results: Results) -> Text:
    """The glossary, before the first table."""
    numbers = {
        "alpha": results.alpha,
        "promise": words.promise(results.alpha),
        "repetitions": results.repetitions,
    }
    terms = [(term, meaning.format(**numbers)) for term, meaning in TERMS.items()]
    return Text("Words used here", terms=terms, boxed=True)
