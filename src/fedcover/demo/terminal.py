"""What the demo shows on the terminal: a progress bar, the table, its reading, where to look."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedcover.demo import data, words
from fedcover.demo.experiment import Experiment, Results
from fedcover.report.estimate import Estimate

COLOURS = {"below": "red", "on": "green", "above": "yellow"}


def with_progress(console: Console, repetitions: int, alpha: float, seed: int) -> Results:
    """Run the experiment with a progress bar that disappears at the end."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        line = bar.add_task("Training the model", total=repetitions)
        experiment = Experiment(alpha, repetitions, seed)
        bar.update(line, description="Calibrating and testing")
        for _ in experiment.steps():
            bar.advance(line)
        return experiment.results()


def show(results: Results, out: Path, console: Console) -> None:
    """Print the table, its reading, and the next steps."""
    small = data.SMALL
    console.print(
        f"\n[bold]{len(results.hospitals)} hospitals, {results.repetitions} random splits, "
        f"promise 1-α = {words.promise(results.alpha)}[/]  (model accuracy "
        f"{words.percent(results.federation.accuracy, 0)})\n{words.SIMULATION} {words.THE_NAME}\n"
    )
    console.print(_table(results))
    console.print(
        f"[dim]± is the 95% confidence interval of the mean over {results.repetitions} splits; a "
        "split is one random draw of all records. Coverage: how many of "
        f"{data.TEST_SIZE} test records have their true label in the set; {small.title} has "
        f"{small.size} calibration records. Labels: mean number in a set, in brackets over all "
        "hospitals. Round: the server asks, every site answers once. Bytes are those of an average "
        "site. ε: the measure of differential privacy; none is claimed, so what leaves has no "
        "guarantee. Score: how surprising a label is to the model, one per record.[/]\n"
    )
    for sentence in words.reading(results):
        console.print(sentence)
    for note in words.too_few(results):
        console.print(f"[yellow]Note:[/] {note}")
    console.print(f"\nReport: [bold]{out / 'report.html'}[/]", soft_wrap=True, highlight=False)
    example = f"{out / small.name}.json {out / f'new-{small.name}.npz'}"
    console.print(f"Try next: fedcover evaluate {example}", soft_wrap=True, highlight=False)


def _table(results: Results) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    small = data.SMALL.title
    headings = [
        "method",
        f"coverage %\nat {small}",
        "at lowest\nhospital",
        f"labels\n{small}\n(all)",
        "rounds",
        "bytes\na site",
        "ε",
        "scores\nleave?",
    ]
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="left" if k in (0,) else "right", no_wrap=True)
    for m, (name, method) in enumerate(results.methods.items()):
        where, worst = words.lowest(results, name)
        sizes = results.sizes(name)[results.hospitals.index(data.SMALL)]
        rounds = f"{results.rounds[m]:.0f}"
        table.add_row(
            name.replace(" ", "\n"),
            _coloured(results, words.at_small(results, name)),
            f"{_coloured(results, worst)}\n[dim]{where.title}[/]",
            f"{sizes.mean:.2f}\n[dim]({results.mean_size(name).mean:.2f})[/]",
            rounds,
            f"↑{words.data_size(results.bytes_up[m])}\n↓{words.data_size(results.bytes_down[m])}",
            words.epsilon(results, name).replace(" ", "\n"),
            "yes" if method.shares_scores else "no",
        )
    return table


def _coloured(results: Results, e: Estimate) -> str:
    return f"[{COLOURS[e.verdict(1 - results.alpha)]}]{words.coverage(e)}[/]"
