"""Messages in the words of the command line: options as one types them here, not in Python."""

from __future__ import annotations

import re

from fedcover.methods import registry

OPTIONS = (
    "alpha", "certify", "confidence", "conspirators", "delta", "epsilon", "gamma", "previous",
    "relation", "repetitions", "seed", "temperature", "unit", "view",
)  # fmt: skip
"""Options that have the same name in Python."""

PHRASES = {
    "use from_logits or logits=": "give --logits (csv, parquet) or name the array logits (npz)",
    "give label_counts from more data": "count more labels (--counts-file, or an array "
    "label_counts in the site's file)",
    "give local_scores": "give --use-own-scores",
    "local_scores": "--use-own-scores",
    "fedcover.collect": "fedcover collect",
    "fedcover.calibrate": "fedcover calibrate",
    "Leave method out, or write method=fedcover.methods.Sketch()": "Leave --method out, or give "
    "--method sketch",
}
"""Whole phrases that have another form here."""


def at_the_command_line(text: str) -> str:
    """A message with Python's names of options turned into those of the command line."""
    for python, here in PHRASES.items():
        text = text.replace(python, here)
    by_class = {e.method.__name__: e for e in registry.entries(studies=True)}
    classes = "|".join(by_class)

    def method(found: re.Match[str]) -> str:
        options = found[2].replace("...", "…")
        return f"--option {options}" if options else f"--method {by_class[found[1]].name}"

    text = re.sub(rf"\b(?:method=)?(?:fedcover\.methods\.)?({classes})\(([\w=.]*)\)", method, text)
    own = "|".join(OPTIONS)
    text = re.sub(rf"(?<![\w-])({own})=('[^']*'|[\w.+-]*\w)", _option, text)
    text = re.sub(r"^label_counts(?= (?:is|sums))", "--counts", text)
    text = re.sub(rf"^({own})(?= (?:is|are|repeats|\[))", r"--\1", text)
    inner = "|".join(sorted({o for e in by_class.values() for o in e.options}))
    return re.sub(rf"^({inner})(?= (?:is|are) )", r"--option \1", text)


def _option(found: re.Match[str]) -> str:
    return f"--{found[1]} {found[2].strip(chr(39))}"
