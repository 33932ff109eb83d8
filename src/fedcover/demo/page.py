"""The demo's report: what the results say, in the order in which a reader would ask."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from fedcover.demo import data, glossary, leaves, plots, words
from fedcover.demo.experiment import GLOBAL, OURS, PUBLISHED, Results
from fedcover.report.page import Fact, Section, Table, Text, save_figures, write_page

VERSIONS_OF = ("fedcover", "numpy", "scipy", "scikit-learn", "matplotlib")


def write(results: Results, out: Path) -> None:
    """Write report.html, and its figures as .svg and .png."""
    sections: list[Section] = [
        glossary.box(results),
        _methods(results),
        plots.coverage(results),
        _numbers(results),
        leaves.table(results),
        leaves.caveats(results),
        plots.set_sizes(results),
        plots.score_curves(results),
        plots.label_mix(results),
        _promises(results),
        _data(results),
        _reproduce(results),
    ]
    small, wanted = data.SMALL, words.promise(results.alpha)
    lead = [
        "These hospitals share one model, and none may show its records to the others. Each sees "
        "another mix of cases, some of them much harder for the model. Instead of one label the "
        "model returns a list of labels, and the promise is that the true label is "
        f"on the list {wanted} of the time on average, at every hospital.",
        f"{words.SIMULATION} There are no patients either: images of hand-written digits stand for "
        "them. Mixes of cases and training images were chosen so that the difference between the "
        f"methods is plain to see. {words.THE_NAME}",
    ]
    write_page(
        out / "report.html",
        words.headline(results),
        lead,
        sections,
        facts=_facts(results),
        kicker=f"fedcover demo, simulated on one machine · {small.title} is the small hospital, "
        f"with {small.size} calibration records",
        footer=f"Written by fedcover {version('fedcover')}. Every number on this page was "
        "computed by the run that wrote it; each split is in results.csv.",
    )
    save_figures(sections, out)


def _facts(results: Results) -> list[Fact]:
    tones = {"below": "bad", "on": "good", "above": "good"}
    promised = f"promised at every hospital on average (α = {results.alpha:g})"
    facts = [Fact(words.promise(results.alpha), promised)]
    for name in (GLOBAL, OURS):
        e = words.at_small(results, name)
        tone = tones[e.verdict(1 - results.alpha)]
        facts.append(
            Fact(words.percent(e.mean), f"kept at {data.SMALL.title} by {name}, on average", tone)
        )
    if not results.methods[OURS].shares_scores:
        near = words.fraction(words.gamma(results))
        caveat = (
            f"but exact label counts do, and a threshold is within {near} of one record's score"
        )
        facts.append(Fact("0", f"raw scores leave a hospital with {OURS}; {caveat}"))
    return facts


def _methods(results: Results) -> Table:
    small = data.SMALL.title
    rows = []
    for m, (name, method) in enumerate(results.methods.items()):
        where, worst = words.lowest(results, name)
        sizes = results.sizes(name)[results.hospitals.index(data.SMALL)]
        rows.append(
            [
                name,
                words.coverage(words.at_small(results, name)),
                f"{words.coverage(worst)}\n{where.title}",
                f"{words.size(sizes)}\nall sites {results.mean_size(name).mean:.2f}",
                f"{results.rounds[m]:.0f}",
                f"{words.data_size(results.bytes_up[m])} up\n"
                f"{words.data_size(results.bytes_down[m])} down",
                words.epsilon(results, name),
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
        "“nothing sent” where none is needed. "
        f"“{PUBLISHED}” runs the published step size and number of rounds, which do not "
        "converge: the result depends on the start, q₀ = 0.5 here, which the paper does not state."
    )
    answer = "\n".join([*words.reading(results), words.SIMULATION])
    return Table("All methods side by side", columns, rows, caption, answer, strong=[OURS])


def _numbers(results: Results) -> Table:
    """Coverage and size of every method at every site: the numbers behind the first figures."""
    rows = [
        [
            name,
            *(
                f"{words.coverage(c)}\n{words.size(s)} labels"
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


def _promises(results: Results) -> Text:
    paragraphs = [
        "A promise of this kind is an average, over the calibration records a hospital happened to "
        f"have and over its patients. It does not say that every label, or every single patient, "
        f"is covered {words.promise(results.alpha)} of the time.",
        "Methods that learn from other hospitals need label shift: a record of one label must look "
        "alike everywhere, and only the mix of labels may differ. Another scanner at one hospital "
        "breaks it, and then only Local still holds. In this demo it is true by construction.",
        *words.too_few(results),
    ]
    by_promise: dict[str, list[str]] = {}
    for name in results.names:
        promise = leaves.sentence(words.calibration(results, name).guarantee)
        by_promise.setdefault(promise, []).append(name)
    terms = [(", ".join(names), promise) for promise, names in by_promise.items()]
    return Text("What this promises, and when it does not hold", paragraphs, terms)


def _data(results: Results) -> Text:
    fed = results.federation
    return Text(
        "Where the data come from",
        [
            "1,797 images of hand-written digits, 8 × 8 pixels, shipped with scikit-learn; the ten "
            f"digits stand for ten diagnoses. The model, a logistic regression, saw "
            f"{fed.n_training} of them with noise on every pixel, and only "
            f"{min(data.TRAINING_COUNTS)} each of the digits 1, 8 and 9. It is modest on purpose: "
            f"it is right on {words.percent(fed.accuracy, 0)} of the other {len(fed.labels):,} "
            "images.",
            f"In each of the {results.repetitions} splits, every hospital draws its calibration "
            f"labels and {data.TEST_SIZE} test labels from its own mix, then images of these "
            "labels. No image is at two hospitals, and no tested image is in any calibration set. "
            "The model is trained once, so the intervals say how sure the mean over splits is for "
            "this model and these images. Score: APS with random u.",
        ],
    )


def _reproduce(results: Results) -> Text:
    small = data.SMALL.name
    versions = ", ".join(f"{name} {version(name)}" for name in VERSIONS_OF)
    return Text(
        "How to reproduce it, and what to try next",
        [f"Seed {results.seed}; Python {platform.python_version()}, {versions}."],
        code=[
            f"fedcover demo --alpha {results.alpha:g} --repetitions {results.repetitions} "
            f"--seed {results.seed}",
            "",
            "# in the folder of this report",
            f"fedcover predict {small}.json new-{small}.npz",
            f"fedcover evaluate {small}.json new-{small}.npz",
            "fedcover calibrate site-*.npz --out calibrations",
        ],
    )
