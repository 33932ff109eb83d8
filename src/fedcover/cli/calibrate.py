"""`fedcover calibrate`."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import fedcover as fc
from fedcover._io.writing import output_folder, unwritable
from fedcover.cli.common import (
    Alpha,
    Certify,
    Conspirators,
    Delta,
    Epsilon,
    Files,
    Logits,
    Relation,
    ScoreName,
    ScoreOption,
    Seed,
    Temperature,
    Unit,
    View,
    coverage_note,
    coverages,
    error_rates,
    known_target,
    note,
    out,
    privacy_budget,
    shown_once,
    spans,
)
from fedcover.cli.files import read_sites, site_files, site_name
from fedcover.errors import FedcoverError
from fedcover.methods import registry
from fedcover.methods.base import checked_certify, under_budget
from fedcover.options import make

RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE)
"""Names that no file can have on Windows."""

AUTO = "auto"
"""What leaves the choice between the sketch and DP-FedCP to predicted error and cost."""


def calibrate(
    files: Files,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the calibrations.")],
    alpha: Alpha = ["0.1"],  # noqa: B006 (typer copies it)
    method: Annotated[
        str | None,
        typer.Option(
            help=" or ".join((*registry.names(), AUTO))
            + "; default dp-fedcp, or sketch to certify."
        ),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the method, such as subsample=true.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Site to calibrate for; default every site.")
    ] = None,
    score: ScoreName = "aps",
    score_option: ScoreOption = None,
    logits: Logits = False,
    temperature: Temperature = 1.0,
    epsilon: Epsilon = None,
    delta: Delta = None,
    unit: Unit = None,
    relation: Relation = None,
    view: View = None,
    conspirators: Conspirators = None,
    certify: Certify = None,
    seed: Seed = None,
) -> None:
    """Calibrate every site of a federation from files; writes one .json per target.

    Example: fedcover calibrate site-*.npz --alpha 0.1 --out calibrations
    """
    levels = error_rates(alpha)
    privacy = privacy_budget(epsilon, delta, unit, relation, view, conspirators)
    chosen = _method(method or ("dp-fedcp" if certify is None else "sketch"), option)
    able = fc.methods.Sketch() if chosen == AUTO else under_budget(chosen, privacy)
    checked_certify(certify, able)
    output_folder(out_dir)
    files = site_files(files)
    known = [site_name(f) for f in files]
    targets = [known_target(t, known) for t in target] if target else None
    _different_files(targets or known)
    sites = read_sites(files, score, score_option, logits, temperature, seed)
    cals = _calibrations(sites, levels, chosen, targets, seed, privacy, certify)
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out_dir, error) from None
    first = next(iter(cals.values()))
    rounds = f"{first.cost.rounds} round{'s' * (first.cost.rounds != 1)}"
    table = Table(title=f"{first.method}: {len(sites)} sites, {rounds}")
    for heading in ("target", "own/all", "worth", "α", "threshold", "coverage"):
        justify: Any = "left" if heading == "target" else "right"
        table.add_column(heading, justify=justify, no_wrap=heading != "target")
    own = {s.name: len(s) for s in sites}
    for name, cal in cals.items():
        cal.save(out_dir / f"{_file_name(name)}.json")
        about = [name, f"{own[name]}/{cal.n_records}", f"{cal.effective_size:.0f}"]
        for level, limits, off in zip(cal.alpha, spans(cal), coverages(cal), strict=True):
            table.add_row(*map(Text, [*about, f"{level:g}", limits, off]))
            about = [""] * 3
    out.print(table)
    out.print("own/all: calibration records of the target itself, and those its thresholds use.")
    if how := coverage_note(first):
        out.print(how)
    sent, received = (
        _bytes(getattr(cal.cost, way) for cal in cals.values())
        for way in ("bytes_up", "bytes_down")
    )
    out.print(f"A target's site sent {sent} and received {received}.", highlight=False)
    for text in dict.fromkeys(text for cal in cals.values() for text in cal.notes):
        note(text)
    out.print(Text(f"One calibration file per target is in {out_dir}."))
    out.print(f"Promise: {_promise(list(cals.values()))}.")
    for statement in dict.fromkeys(c.certificate.statement for c in cals.values() if c.certificate):
        out.print(Text(f"Certificate: {statement}"))
    if first.privacy is None:
        out.print(f"What left the sites: {first.reveals}. Differential privacy: none.")
    else:
        out.print(f"Privacy: {first.reveals}", highlight=False)


def _method(name: str, option: list[str] | None) -> Any:
    """A method object, or the word that leaves the choice open."""
    if name.lower() in registry.names(studies=True):
        registry.for_real_sites(name.lower())  # or the reason why it cannot be used there
    if name.lower() != AUTO:
        return make({**registry.classes(), AUTO: None}, name, option, "method")
    if option:
        raise FedcoverError(
            f"option {option[0]!r} of method {AUTO}",
            allowed="no option, because the method is yet to be chosen",
            fix="Name the method with --method sketch or --method dp-fedcp",
        )
    return AUTO


def _calibrations(
    sites: list[fc.Site],
    alpha: tuple[float, ...],
    method: Any,
    targets: Sequence[str] | None,
    seed: int | None,
    privacy: fc.Privacy | None,
    certify: float | None,
) -> dict[str, fc.Calibration]:
    """The calibrations; warnings that come back as notes are shown once, as notes."""
    engine = fc.engines.InProcess(progress=sys.stderr.isatty())
    return shown_once(
        lambda: fc.calibrate(sites, alpha, method, targets, privacy, engine, seed, certify),
        lambda cals: (note for cal in cals.values() for note in cal.notes),
    )


def _promise(cals: list[fc.Calibration]) -> str:
    """What all targets are promised; errors that differ between them are in their files."""
    promises = {cal.guarantee for cal in cals}
    if len(promises) == 1:
        return promises.pop()
    common = re.split("; coverage|; at alpha=", next(iter(promises)))[0]
    return f"{common}; the file of each target states its own errors"


def _bytes(counts: Iterable[int]) -> str:
    low, *_, high = sorted([*counts] * 2)
    return f"{low:,} B" if low == high else f"{low:,} to {high:,} B"


def _file_name(target: str) -> str:
    name = re.sub(r"[^\w.-]+", "_", target).lstrip(".") or "target"
    return f"_{name}" if RESERVED.fullmatch(name.partition(".")[0]) else name


def _different_files(targets: list[str]) -> None:
    """Refuse targets whose files would overwrite each other, on any system."""
    seen: dict[str, str] = {}
    for name in targets:
        key = unicodedata.normalize("NFC", _file_name(name)).casefold()
        if seen.setdefault(key, name) != name:
            raise FedcoverError(
                f"the calibrations of {seen[key]!r} and {name!r} would both be written to "
                f"{_file_name(name)}.json",
                allowed="targets with different file names",
                fix="Rename one of the site files, or calibrate one at a time with --target",
            )
