"""`fedcover personalise`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

import fedcover as fc
from fedcover.checks import refuse_gone
from fedcover.classnames import in_words
from fedcover.cli.common import (
    Alpha,
    Certify,
    Gone,
    Logits,
    Report,
    Seed,
    Trust,
    coverage_note,
    coverages,
    error_rates,
    note,
    out,
    shown_once,
    spans,
)
from fedcover.cli.files import (
    LabelFile,
    check_outputs,
    load_sketch,
    no_sketches,
    numbers,
    outputs_for,
    read_label_file,
    site_name,
)
from fedcover.errors import FedcoverError, FileError
from fedcover.methods.base import checked_certify
from fedcover.methods.sketch.personalise import mix_of
from fedcover.site import checked_name


def personalise(
    sketch: Annotated[Path, typer.Argument(help="An .npz written by `collect` or `merge`.")],
    out_file: Annotated[Path, typer.Option("--out", help="The calibration to write, a .json.")],
    alpha: Alpha = ["0.1"],  # noqa: B006 (typer copies it)
    site: Annotated[
        Path | None, typer.Option(help="The site's labelled records; gives its label counts.")
    ] = None,
    counts: Annotated[
        str | None, typer.Option(help="Label counts or shares in class order, such as 10,3,5.")
    ] = None,
    counts_file: Annotated[
        Path | None, typer.Option(help="Label counts in a .json, .csv or text file.")
    ] = None,
    unlabelled: Annotated[
        Path | None,
        typer.Option(help="Model outputs without labels, from which the mix is estimated."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="With --unlabelled: label counts of the model's training data, in a file; "
            "default those of the sketch."
        ),
    ] = None,
    use_own_scores: Annotated[
        bool,
        typer.Option(
            "--use-own-scores", help="Blend in the scores of --site where they lower the error."
        ),
    ] = False,
    certify: Certify = None,
    name: Annotated[
        str | None, typer.Option(help="The site's name; default that of its file.")
    ] = None,
    logits: Logits = False,
    report: Report = None,
    seed: Seed = None,
    trusted: Trust = None,
    mode: Gone = None,
) -> None:
    """Turn a sketch into a site's own calibration, at the site: no message, no budget.

    Example: fedcover personalise sketch.npz --site mine.npz --alpha 0.1 --out mine.json
    """
    refuse_gone(mode=mode)
    levels = error_rates(alpha)
    checked_certify(certify, fc.methods.Sketch())
    inputs = [p for p in (sketch, site, counts_file, unlabelled, source) if p is not None]
    check_outputs({".json": out_file, ".html": report}, inputs)
    _consistent(site, counts, counts_file, unlabelled, source, use_own_scores)
    name = checked_name(name or _name(site or unlabelled), "name")
    by_hand = None if counts is None else numbers(counts.split(","), "--counts")
    files = {p: read_label_file(p) for p in (counts_file, source) if p is not None}
    no_sketches([p for p in (site, unlabelled) if p is not None])
    made = load_sketch(sketch, trusted)
    if use_own_scores and made.score is None:
        raise FedcoverError(
            f"--use-own-scores, and {sketch} was made from ready scores",
            allowed="a sketch with a score function",
            fix="Use SketchResult.personalise(local_scores=...) in Python",
        )
    records = None if site is None else _records(made, site, name, logits, seed)
    mix: dict[str, Any] = {}
    if by_hand is not None:
        mix["label_counts"], said = by_hand, "given by hand"
    elif counts_file is not None:
        mix["label_counts"] = _counts(files[counts_file], made)
        said = f"from {counts_file.name}"
    elif unlabelled is not None:
        probs = _fitting(made, unlabelled, logits, labels=False).probs
        mix["probabilities"] = probs
        mix["source"] = _counts(files[source], made) if source else None
        said = (
            f"estimated from the model's probabilities for {len(probs):,} unlabelled records, and "
            "only as right as these are"
        )
    else:
        assert records is not None  # `_consistent` has refused everything else
        mix["label_counts"] = records.counts
        said = f"{records.counts.sum():,} counted labels"
    own = records.site.scores if records and records.site and use_own_scores else None
    # With its records a site's own certificate can be taken where it is expected to be better.
    site_itself = records.site if records is not None and certify is not None else None
    whole: dict[str, Any] = {} if site_itself is None else {"label_counts": site_itself}
    cal = shown_once(
        lambda: made.personalise(
            alpha=levels, local_scores=own, certify=certify, name=name, **{**mix, **whole}
        ),
        lambda cal: cal.notes,
    )
    cal.save(out_file)
    _show(made, cal, said, out_file)
    if report is not None:
        from fedcover.report.personal import write

        labelled = records.site if records else None
        counts, probs, source = (mix.get(k) for k in ("label_counts", "probabilities", "source"))
        shares = mix_of(made.table, made.label_names, counts, None, probs, source)
        write(report, made, cal, out_file, shares, said, labelled, use_own_scores)
        out.print(Text(f"Report: {report}. It shows the site's own label mix: keep it there."))


@dataclass(frozen=True)
class Records:
    """A site's labelled records: its label counts, and its scores where their function is known."""

    counts: NDArray[np.int64]
    site: fc.Site | None


def _show(sketch: fc.SketchResult, cal: fc.Calibration, mix: str, path: Path) -> None:
    shown = Table(title=Text(f"Thresholds for {cal.target}"))
    for heading in ("α", "threshold", "coverage"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for level, limits, covered in zip(cal.alpha, spans(cal), coverages(cal), strict=True):
        shown.add_row(f"{level:g}", limits, covered)
    out.print(shown)
    out.print(coverage_note(cal))
    rests = f"{len(sketch.sites)} site(s), {sketch.n_records:,} records"
    out.print(Text(f"Label mix: {mix}. The sketch: {rests}."))
    out.print(Text(f"Promise: {cal.guarantee}."))
    if cal.certificate is not None:
        out.print(Text(f"Certificate: {cal.certificate.statement}"))
    for text in cal.notes:
        note(text)
    out.print(Text(f"The calibration is in {path}. Nothing was sent, and no budget was spent."))
    out.print("Next, with the model's outputs for new records:")
    for command, data in (("predict", "new.npz"), ("evaluate", "labelled.npz")):
        out.print(Text(f"  fedcover {command} {path} {data}"), soft_wrap=True)


def _consistent(
    site: Path | None,
    counts: str | None,
    counts_file: Path | None,
    unlabelled: Path | None,
    source: Path | None,
    use_own_scores: bool,
) -> None:
    """One label mix, and options only beside those they belong to."""
    given = {"--counts": counts, "--counts-file": counts_file, "--unlabelled": unlabelled}
    mixes = [option for option, value in given.items() if value is not None]
    if len(mixes) > 1 or not (mixes or site):
        raise FedcoverError(
            f"{' and '.join(mixes)} are given" if mixes else "no label mix is given",
            allowed=f"one of {', '.join(given)}, or --site alone",
            fix="Say where the site's label mix comes from, for example --site mine.npz",
        )
    if source is not None and unlabelled is None:
        raise FedcoverError(
            "--source without --unlabelled",
            allowed="--source with --unlabelled",
            fix="Leave it out: counted labels need no estimate",
        )
    if use_own_scores and site is None:
        raise FedcoverError(
            "--use-own-scores without --site",
            allowed="--use-own-scores with the site's labelled records",
            fix="Give them with --site mine.npz",
        )


def _name(path: Path | None) -> str:
    return "site" if path is None else site_name(path)


def _records(
    sketch: fc.SketchResult, path: Path, name: str, logits: bool, seed: int | None
) -> Records:
    """The site's records, with scores made as those of the sketch."""
    table = _fitting(sketch, path, logits, labels=True)
    if table.labels is None:
        raise FileError(
            f"{path} has no labels",
            allowed="labelled records with --site",
            fix="Give it with --unlabelled instead, or add an array 'labels'",
        )
    counted = np.bincount(table.labels, minlength=sketch.n_classes)
    counts = counted if table.label_counts is None else table.label_counts
    if sketch.score is None:
        return Records(counts, None)
    site = fc.Site.from_probabilities(
        name,
        table.probs,
        in_words(table.labels, sketch.label_names),
        sketch.score,
        seed,
        label_names=sketch.label_names,
    )
    return Records(counts, site)


def _fitting(sketch: fc.SketchResult, path: Path, logits: bool, labels: bool) -> Any:
    """Model outputs with the classes of the sketch."""
    table = outputs_for(sketch, path, logits, labels)
    if table.probs.shape[1] != sketch.n_classes:
        raise FedcoverError(
            f"{path} has {table.probs.shape[1]} classes",
            allowed=f"the {sketch.n_classes} classes of the sketch",
            fix="Use outputs of the model whose scores were collected",
        )
    return table


def _counts(file: LabelFile, sketch: fc.SketchResult) -> list[float]:
    values = file.of_every(sketch.n_classes, sketch.label_names, missing="0")
    return numbers(values, str(file.path))
