"""`fedcover collect` and `fedcover merge`: one sketch of many sites."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import fedcover as fc
from fedcover.checks import refuse_gone
from fedcover.classnames import Names
from fedcover.cli.common import (
    SCORES,
    Conspirators,
    Delta,
    Epsilon,
    Files,
    Gone,
    Logits,
    Relation,
    Report,
    ScoreOption,
    Seed,
    Trust,
    Unit,
    View,
    out,
    privacy_budget,
    score_named,
)
from fedcover.cli.files import (
    check_outputs,
    load_sketch,
    merged,
    no_sketches,
    read_label_file,
    site_files,
    site_name,
)
from fedcover.errors import FedcoverError
from fedcover.inputs import listed
from fedcover.options import make
from fedcover.privacy.statement import KIND

OutSketch = Annotated[Path, typer.Option("--out", help="The sketch to write, an .npz.")]


def collect(
    files: Files,
    out_file: OutSketch,
    epsilon: Epsilon = None,
    delta: Delta = None,
    unit: Unit = None,
    relation: Relation = None,
    view: View = None,
    conspirators: Conspirators = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the sketch, such as bins=512.")
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            help="Labels that share a row: a .json, .csv or text file with a group for each class. "
            "Default: a row for each."
        ),
    ] = None,
    confusion: Annotated[
        bool,
        typer.Option(
            "--confusion",
            help="Also count which label the model predicts for which, for sites without labels; "
            "takes a fifth of the budget.",
        ),
    ] = False,
    score: Annotated[str | None, typer.Option(help=f"One of {SCORES}; default aps.")] = None,
    score_option: ScoreOption = None,
    logits: Logits = False,
    temperature: Annotated[
        float | None, typer.Option(help="Divide logits by this before the softmax; default 1.")
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            help="A sketch of other sites that these sites join: its bins, groups and score are "
            "used, and the sum of both is written. May be repeated."
        ),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option(help="An earlier sketch of these data: what it has spent is added."),
    ] = None,
    report: Report = None,
    seed: Seed = None,
    mode: Gone = None,
) -> None:
    """Collect one label × score table from site files; each site personalises it at home.

    Example: fedcover collect site-*.npz --epsilon 2 --out sketch.npz
    """
    refuse_gone(mode=mode)
    privacy = privacy_budget(epsilon, delta, unit, relation, view, conspirators)
    files = site_files(files)
    check_outputs({".npz": out_file, ".html": report}, no_sketches(files))
    base = merged(merge) if merge else None
    if base is None:
        by_label = read_label_file(groups) if groups else None
        words = [*(option or []), *["confusion=true"] * confusion]
        method = make({"sketch": fc.methods.Sketch}, "sketch", words, "method")
        chosen = score_named(score or "aps", score_option)
    else:
        given = {"--option": option, "--groups": groups, "--confusion": confusion or None,
                 "--score": score, "--score-option": score_option,
                 "--temperature": temperature}  # fmt: skip
        by_label, method = None, base.method
        chosen, temperature = _joined(base, given, privacy, [site_name(f) for f in files])
    _limited(privacy, method)
    earlier = load_sketch(previous) if previous else None
    sites = [
        fc.Site.from_file(f, None, chosen, seed, logits=logits, temperature=temperature or 1.0)
        for f in files
    ]
    names = next((s.label_names for s in sites if s.label_names), None)
    if by_label is not None:
        method = replace(method, groups=by_label.of_every(sites[0].n_classes, names))
    if base is not None:
        _same_classes(base, sites[0].n_classes, names)
    engine = fc.engines.InProcess(progress=sys.stderr.isatty())
    sketch = fc.collect(sites, method, privacy, engine, previous=earlier, seed=seed)
    sketch = sketch if base is None else base + sketch
    sketch.save(out_file)
    show(sketch, out_file)
    if report is not None:
        from fedcover.report.sketch import write

        named = by_label.of_every(sites[0].n_classes, names) if by_label else None
        write(report, sketch, out_file, sites, named)
        out.print(Text(f"Report: {report}. It shows the sites' records without noise."))
    _next(files, out_file)


def merge(
    sketches: Annotated[list[Path], typer.Argument(help="Sketches written by `collect`.")],
    out_file: OutSketch,
    report: Report = None,
    trusted: Trust = None,
) -> None:
    """Add up sketches of different sites; nothing is sent, and no budget is spent.

    Example: fedcover merge north.npz south.npz --out all.npz
    """
    check_outputs({".npz": out_file, ".html": report}, [])
    sketches = site_files(sketches)
    if len(sketches) < 2:
        raise FedcoverError(
            f"{len(sketches)} sketch is given",
            allowed="two or more",
            fix="fedcover merge north.npz south.npz --out all.npz, for example",
        )
    sketch = merged(sketches, trusted)
    sketch.save(out_file)
    show(sketch, out_file)
    if report is not None:
        from fedcover.report.sketch import write

        write(report, sketch, out_file)
        out.print(Text(f"Report: {report}"))


def show(sketch: fc.SketchResult, path: Path) -> None:
    """The sketch in a table, what is promised about it, and where it is."""
    table, layout, cost = sketch.table, sketch.table.layout, sketch.cost
    n = len(sketch.sites)
    shown = Table(title=f"Sketch of {n} site{'s' * (n > 1)}", show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column()
    how = "one per label" if layout.groups is None else "labels in groups"
    noise = "none"
    if not table.exact:
        noise = f"± {table.miss_deviation()[-1]:.3g} records of a row above a score, at most"
    for what, value in {
        "sites": listed(sketch.sites, 12),
        "records": f"{'' if table.records else 'about '}{sketch.n_records:,}",
        "labels": f"{layout.n_classes:,}",
        "rows": f"{layout.rows:,} ({how})",
        "bins": f"{layout.bins:,}",
        "noise": noise,
        **({} if table.confusion is None else {"confusion matrix": "collected"}),
        "rounds": str(cost.rounds),
        "sent per site": f"{cost.bytes_up:,} B",
        "received per site": f"{cost.bytes_down:,} B",
    }.items():
        shown.add_row(what, Text(value))
    out.print(shown)
    if sketch.privacy is None:
        left = f"What left the sites: {sketch.method.reveals}. Differential privacy: none."
        out.print(Text(left))
    else:
        out.print(Text(f"Privacy: {sketch.privacy.describe()}"))
    size = path.stat().st_size
    out.print(Text(f"The sketch is in {path} ({size:,} B); every site may have it."))


def _next(files: list[Path], sketch: Path) -> None:
    name = site_name(files[0])
    out.print("Next, at each site, for any α and without a message:")
    command = f"  fedcover personalise {sketch} --site {files[0]} --alpha 0.1 --out {name}.json"
    out.print(Text(command), soft_wrap=True)


def _limited(privacy: fc.Privacy | None, method: fc.methods.Sketch) -> None:
    if privacy is not None and privacy.unit == "site" and method.most_per_site is None:
        raise FedcoverError(
            "--unit site, and a site may have any number of records",
            allowed="--unit site with --option most_per_site=…",
            fix="Say how many records a site may put in at most; it takes a random choice of them",
        )


def _joined(
    base: fc.SketchResult, given: Mapping[str, object], privacy: fc.Privacy | None, names: list[str]
) -> tuple[fc.scores.Score, float]:
    """Score and temperature of a sketch that sites are to join, after a look that they can."""
    if wrong := [name for name, value in given.items() if value is not None]:
        raise FedcoverError(
            f"{wrong[0]} together with --merge",
            allowed="the bins, groups, score and temperature of the sketch to be joined",
            fix=f"Leave {wrong[0]} out",
        )
    if both := sorted(set(names) & set(base.sites)):
        raise FedcoverError(
            f"site {both[0]!r} is in the sketch already",
            allowed="sites that are not in it",
            fix="Leave it out; to renew its part, collect it with --previous",
        )
    if base.score is None:
        raise FedcoverError(
            "the sketch to be joined was made from ready scores, their function is not known",
            allowed="a sketch with a score function",
            fix="Use fedcover.collect in Python, with scores made as before",
        )
    asked, stated = privacy, base.privacy
    if stated is None and asked is not None:
        raise FedcoverError(
            "--epsilon, and the sketch to be joined has no privacy",
            allowed="privacy in both, or in none",
            fix="Leave --epsilon out, or collect the sites of the sketch again with privacy",
        )
    if stated is None:
        return base.score, base.temperature
    if asked is None or any(getattr(asked, k) != getattr(stated, k) for k in KIND):
        said = KIND if stated.secure_sum else KIND[:-1]
        options = " ".join(f"--{k} {getattr(stated, k)}" for k in said)
        raise FedcoverError(
            f"the sketch to be joined has privacy with {options}",
            allowed="the same kind of privacy for the sites that join",
            fix=f"Give --epsilon {stated.epsilon:.4g} --delta {stated.delta:g} {options}",
        )
    return base.score, base.temperature


def _same_classes(base: fc.SketchResult, n_classes: int, names: Names | None) -> None:
    if base.n_classes != n_classes or base.label_names != names:
        mine = listed(names, 6) if names else f"{n_classes} without names"
        theirs = listed(base.label_names, 6) if base.label_names else f"{base.n_classes} unnamed"
        raise FedcoverError(
            f"the sites have the classes {mine}",
            allowed=f"those of the sketch to be joined: {theirs}",
            fix="Use outputs of the same model, with the same names or none",
        )
