"""`fedcover demo`: runs the experiment, writes its report and example files, prints its table."""

from __future__ import annotations

import csv
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from fedcover import checks
from fedcover._io.cells import cell_of
from fedcover._io.writing import replacing, replacing_bytes
from fedcover.errors import FedcoverError, FileError
from fedcover.experiments import runner
from fedcover.experiments.demo import data, text
from fedcover.experiments.demo.results import GLOBAL, OURS, DemoResults
from fedcover.experiments.demo.study import DemoStudy, after_the_figure, coverage
from fedcover.report import page
from fedcover.report.estimate import Estimate

VERSIONS_OF = ("fedcover", "numpy", "scipy", "scikit-learn", "matplotlib")

COLOURS = {"below": "red", "on": "green", "above": "yellow"}
EPSILONS = {"no guarantee": "none", "nothing sent": "-"}
MARKERS = {"below": "▼", "on": "●", "above": "▲"}

STEPS = 4
"""Places on each side of the promise in the picture."""

CALIBRATIONS = "calibrations"
"""Folder of the calibrations, in that of the report."""


def run(
    out: Path,
    *,
    alpha: float = 0.1,
    repetitions: int = DemoStudy.repetitions,
    seed: int = 0,
    console: Console,
) -> None:
    """Run the demo: print the table, write the report and example files into `out`.

    Parameters
    ----------
    out
        Folder for the files; made if it does not exist.
    alpha
        Error rate α, one number.
    repetitions
        Random splits to average over, at least two.
    seed
        Seed of every random choice.
    console
        Where the progress bar and the table go.
    """
    levels = checks.alphas(alpha)
    if len(levels) != 1:
        raise FedcoverError(f"alpha is {alpha!r}", allowed="one number", fix="Give one level")
    checks.whole(repetitions, "repetitions", 2)
    checks.whole(seed, "seed", 0)
    _make_folder(out)
    study = DemoStudy(levels[0])
    with runner.progress_bars(console, transient=True) as new_bar:
        bar = new_bar("Calibrating and testing", repetitions)
        results = DemoResults.of(runner.in_memory(study, repetitions, seed, bar))
    with console.status("Writing the report"):
        write_files(results, out)
        write_page(results, out)
    show(results, out, console)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{out} cannot be made a folder ({error.strerror})",
            allowed="a folder, or a name that is free",
            fix="Choose another --out",
        ) from None


def write_files(results: DemoResults, out: Path) -> None:
    """Write everything but the report and its figures."""
    _results_csv(results, out / "results.csv")
    fed = results.federation
    names = np.array(data.LABEL_NAMES)
    _make_folder(out / CALIBRATIONS)
    for s, hospital in enumerate(results.hospitals):
        made = results.calibrations[OURS][hospital.name]
        made.save(out / CALIBRATIONS / f"{hospital.name}.json")
        for kind, rows in (
            ("site", results.split.calibration[s]),
            ("new", results.split.test[s]),
        ):
            with replacing_bytes(out / f"{kind}-{hospital.name}.npz") as file:
                np.savez_compressed(
                    file, probs=fed.probs[rows], labels=fed.labels[rows], label_names=names
                )


def _results_csv(results: DemoResults, path: Path) -> None:
    """One row per repetition, site and method."""
    with replacing(path) as file:
        writer = csv.writer(file)
        writer.writerow(
            ["repetition", "site", "method", "n_calibration", "n_test", "coverage", "mean_size"]
        )
        for r in range(results.repetitions):
            for s, hospital in enumerate(results.hospitals):
                for m, method in enumerate(results.names):
                    coverage = float(results.coverage[r, m, s])
                    size = float(results.size[r, m, s])
                    sizes = (hospital.size, data.TEST_SIZE)
                    names = cell_of(hospital.name), cell_of(method)
                    writer.writerow([r, *names, *sizes, coverage, size])


def write_page(results: DemoResults, out: Path) -> None:
    """Write report.html, and its figures as .svg and .png."""
    figure, drawn = coverage(results), [*after_the_figure(results), _reproduce(results)]
    small, promised = data.SMALL, text.promise(results.alpha)
    lead = [
        "These hospitals share one model, and none may show its records to the others. Each sees "
        "another mix of cases, some of them much harder for the model. Instead of one label the "
        "model returns a list of labels, and the promise is that the true label is "
        f"on the list {promised} of the time on average, at every hospital.",
        f"{text.SIMULATION} There are no patients either: images of hand-written digits stand for "
        "them. Mixes of cases and training images were chosen so that the difference between the "
        f"methods is plain to see. {text.the_name(results)}",
    ]
    page.write_page(
        out / "report.html",
        text.headline(results),
        lead,
        drawn,
        facts=_facts(results),
        opening=figure,
        kicker=f"fedcover demo, simulated on one machine · {small.title} is the small hospital, "
        f"with {small.size} calibration records",
        footer=f"Written by fedcover {version('fedcover')}. Every number on this page was "
        "computed by the run that wrote it; each split is in results.csv.",
    )
    page.save_figures([figure, *drawn], out)


def _reproduce(results: DemoResults) -> page.Text:
    small = data.SMALL.name
    versions = ", ".join(f"{name} {version(name)}" for name in VERSIONS_OF)
    return page.Text(
        "How to reproduce it, and what to try next",
        [f"Seed {results.seed}; Python {platform.python_version()}, {versions}."],
        code=[
            f"fedcover demo --alpha {results.alpha:g} --repetitions {results.repetitions} "
            f"--seed {results.seed}",
            "",
            "# in the folder of this report",
            f"fedcover predict {CALIBRATIONS}/{small}.json new-{small}.npz",
            f"fedcover report {CALIBRATIONS}/{small}.json new-{small}.npz --out {small}.html",
            "fedcover calibrate site-*.npz --out mine",
        ],
    )


def _facts(results: DemoResults) -> list[page.Fact]:
    tones = {"below": "bad", "on": "good", "above": "good"}
    promised = f"promised at every hospital on average (α = {results.alpha:g})"
    facts = [page.Fact(text.promise(results.alpha), promised)]
    for name in (GLOBAL, OURS):
        e = text.at_small(results, name)
        tone = tones[e.verdict(1 - results.alpha)]
        facts.append(
            page.Fact(
                text.percent(e.mean), f"kept at {data.SMALL.title} by {name}, on average", tone
            )
        )
    if not results.methods[OURS].shares_scores:
        near = text.fraction(text.gamma(results))
        caveat = (
            f"but exact label counts do, and a threshold is within {near} of one record's score"
        )
        facts.append(page.Fact("0", f"raw scores leave a hospital with {OURS}; {caveat}"))
    return facts


def show(results: DemoResults, out: Path, console: Console) -> None:
    """Print the picture, the table, their reading, and the next steps."""
    small = data.SMALL
    console.print(
        f"\n[bold]{len(results.hospitals)} hospitals, {results.repetitions} random splits, "
        f"promise 1-α = {text.promise(results.alpha)}[/]  (model accuracy "
        f"{text.percent(results.federation.accuracy, 0)})\n"
    )
    console.print("Coverage on average: how many records have their true label in the set")
    console.print(_picture(results))
    console.print(
        f"[dim]{MARKERS['below']} below the promise, {MARKERS['on']} as promised, "
        f"{MARKERS['above']} above it; │ is the promise.[/]\n"
    )
    console.print(f"{text.headline(results)}\n\n{text.SIMULATION} {text.the_name(results)}\n")
    console.print(_table(results))
    console.print(
        f"[dim]± is the 95% confidence interval of the mean over {results.repetitions} splits; a "
        f"split is one random draw of all records. Coverage: at {small.title}, on "
        f"{data.TEST_SIZE} test records. Labels: mean number in a set. Round: the server asks, "
        "every site answers once. Sent: by an average site. ε: the measure of differential "
        "privacy; “none” where something leaves and no ε limits what it may betray, “-” where "
        "nothing leaves. "
        f"{text.SEEDED} Score: how surprising a label is to the model, one per record.[/]\n"
    )
    for sentence in text.reading(results):
        console.print(sentence)
    for note in text.too_few(results):
        console.print(f"[yellow]Note:[/] {note}")
    console.print(f"\nReport: [bold]{out / 'report.html'}[/]", soft_wrap=True, highlight=False)
    example = f"{out / CALIBRATIONS / small.name}.json {out / f'new-{small.name}.npz'}"
    console.print(f"Try next: fedcover evaluate {example}", soft_wrap=True, highlight=False)


def _grid(*headings: str) -> Table:
    """A table of plain lines, whose first column is text."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="left" if k == 0 else "right", no_wrap=True)
    return table


def _picture(results: DemoResults) -> Table:
    """A line for each method and a short axis for each hospital, with the promise in its middle."""
    target = 1 - results.alpha
    means = {name: results.coverages(name) for name in results.names}
    furthest = max(abs(e.mean - target) for row in means.values() for e in row)
    table = _grid("", *(h.title for h in results.hospitals))
    for name, row in means.items():
        table.add_row(name, *(mark(e, target, furthest) for e in row))
    return table


def mark(e: Estimate, target: float, furthest: float) -> str:
    """One axis: where the mean is, from `furthest` below the promise to as far above it."""
    verdict = e.verdict(target)
    places = ["·"] * STEPS + ["│"] + ["·"] * STEPS
    at = STEPS + round(STEPS * (e.mean - target) / (furthest or 1.0))
    places[at] = f"[{COLOURS[verdict]}]{MARKERS[verdict]}[/]"
    return "".join(places)


def _table(results: DemoResults) -> Table:
    small = data.SMALL.title
    table = _grid(
        "method",
        f"coverage %\nat {small}",
        f"labels\n{small}",
        "\nall",
        "\nrounds",
        "\nsent",
        "\nε",
        "scores\nleave?",
    )
    for m, (name, method) in enumerate(results.methods.items()):
        sizes = results.sizes(name)[results.hospitals.index(data.SMALL)]
        table.add_row(
            name,
            _coloured(results, text.at_small(results, name)),
            f"{sizes.mean:.2f}",
            f"{results.mean_size(name).mean:.2f}",
            f"{results.rounds[m]:.0f}",
            text.data_size(results.bytes_up[m]),
            EPSILONS.get(epsilon := text.epsilon(results, name), epsilon),
            "yes" if method.shares_scores else "no",
        )
    return table


def _coloured(results: DemoResults, e: Estimate) -> str:
    return f"[{COLOURS[e.verdict(1 - results.alpha)]}]{text.coverage(e)}[/]"
