"""Runs studies: repetitions over the cores of this machine or over Ray, resumable.

Repetition r depends on the seed and on r alone, and rows are put in order at the end: the table is
the same for any number of workers. Finished chunks of repetitions lie beside the result until it is
complete, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import gc
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcover import checks
from fedcover._io.facts import digest, to_json
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.experiments import records
from fedcover.experiments.records import Results
from fedcover.experiments.study import Row, Study

if TYPE_CHECKING:
    from rich.console import Console

CHUNKS = 40
"""About how many parts a run is cut into: what an interruption can cost, and progress steps."""


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Where libraries read how many threads they may take."""

Computed = Iterator[tuple[range, list[Row]]]
"""Chunks of repetitions with their rows, in the order in which they are done."""

Executor = Callable[[Study, int, Sequence[range]], Computed]
"""What computes: given a study, a seed and chunks of repetitions."""

Progress = Callable[[int], None]
"""Called with the number of repetitions done, after each chunk."""

NewBar = Callable[[str, int], Progress]


def run(
    study: Study,
    folder: Path,
    repetitions: int,
    seed: int = 0,
    executor: Executor | None = None,
    on_progress: Progress = lambda done: None,
) -> Results:
    """All repetitions of a study; kept as NAME.parquet in the folder.

    Parameters
    ----------
    study
        The experiment.
    folder
        Where results go; those of the same run that are already there are used.
    repetitions, seed
        How often, and the seed of everything random.
    executor
        What computes; this process alone unless given.
    on_progress
        Called as work goes on.
    """
    checks.whole(repetitions, "repetitions", 1)
    records.pyarrow_modules()  # a missing extra is said before anything is computed
    metadata = _metadata(study, repetitions, seed)
    mark = digest(to_json(metadata))[:12]
    path = folder / f"{study.name}.parquet"
    parts = folder / f"{study.name}-{mark}.parts"
    if path.exists():
        old = records.load(path)
        if old.metadata.get("mark") == mark:
            shutil.rmtree(parts, ignore_errors=True)  # left by a crash after the last chunk
            on_progress(repetitions)
            return old
        if old.repetitions > repetitions:
            raise FedcoverError(
                f"{path} holds {old.repetitions} repetitions of another run, more than "
                f"{repetitions}",
                allowed="a folder without a larger table of this experiment",
                fix="Choose another --out, or delete that table",
            )
    parts.mkdir(parents=True, exist_ok=True)
    chunks = _chunks(repetitions)
    missing = [c for c in chunks if not _part(parts, c).exists()]
    done = repetitions - sum(len(c) for c in missing)
    on_progress(done)
    for chunk, rows in (executor or alone)(study, seed, missing):
        records.save(records.of_rows(rows, {}), _part(parts, chunk))
        done += len(chunk)
        on_progress(done)
    tables = (records.load(_part(parts, c)) for c in chunks)
    results = records.joined(tables, {**metadata, "mark": mark})
    records.save(results, path)
    shutil.rmtree(parts)
    return results


def in_memory(
    study: Study, repetitions: int, seed: int, on_progress: Progress = lambda done: None
) -> Results:
    """The same without a file, in this process."""
    rows: list[Row] = []
    for chunk, part in alone(study, seed, _chunks(repetitions)):
        rows += part
        on_progress(chunk.stop)
    return records.of_rows(rows, _metadata(study, repetitions, seed))


def _metadata(study: Study, repetitions: int, seed: int) -> dict[str, Any]:
    """What tells a run from any other."""
    return {
        "experiment": study.name,
        "settings": study.settings(),
        "seed": seed,
        "repetitions": repetitions,
        "code": records.code(),
        "versions": records.versions(),
    }


def _chunks(repetitions: int) -> list[range]:
    size = max(1, -(-repetitions // CHUNKS))
    return [range(a, min(a + size, repetitions)) for a in range(0, repetitions, size)]


def _part(parts: Path, chunk: range) -> Path:
    return parts / f"{chunk.start}-{chunk.stop}.parquet"


def alone(study: Study, seed: int, chunks: Sequence[range]) -> Computed:
    """One chunk after the other, in this process."""
    for chunk in chunks:
        yield chunk, repeated(study, seed, chunk)


@contextmanager
def processes(workers: int | None = None) -> Iterator[Executor]:
    """Processes on this machine, as many as there are cores unless said.

    They live until the end of the `with` block, so that several studies share what they compile
    and read.
    """
    workers = checks.whole(os.cpu_count() if workers is None else workers, "workers", 1)
    # "spawn": threads of numba and BLAS do not survive a fork. Each process is one worker: more
    # threads would only get in each other's way, and BLAS reads its number when it is loaded.
    context, before = get_context("spawn"), {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:

        def executor(study: Study, seed: int, chunks: Sequence[range]) -> Computed:
            jobs = {pool.submit(repeated, study, seed, chunk): chunk for chunk in chunks}
            for job in as_completed(jobs):
                yield jobs[job], job.result()

        try:
            yield executor
        finally:
            pool.shutdown(cancel_futures=True)
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value


def on_ray(study: Study, seed: int, chunks: Sequence[range]) -> Computed:
    """Chunks go to a Ray cluster, or to this machine's cores where there is none."""
    try:
        import ray
    except ModuleNotFoundError:
        raise FedcoverError(
            "ray is asked for and not installed",
            allowed="ray with the extra flower, or the cores of this machine",
            fix="pip install 'fedcover[flower]'",
        ) from None
    ray.init(ignore_reinit_error=True, logging_level=40, include_dashboard=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # Ray leaves two files open, in a cycle that the collector ends
    task = ray.remote(repeated)
    jobs = {task.remote(study, seed, chunk): chunk for chunk in chunks}
    waiting = list(jobs)
    while waiting:
        (ready, *_), waiting = ray.wait(waiting)
        yield jobs[ready], ray.get(ready)


def repeated(study: Study, seed: int, chunk: range) -> list[Row]:
    """The rows of some repetitions, in order."""
    out: list[Row] = []
    gc.freeze()  # 150,000 objects of libraries need not be searched for garbage again and again
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedcoverWarning)  # small sites are meant to be there
            for r in chunk:
                out += [{"repetition": r, **row} for row in study.repetition(seed, r)]
    finally:
        gc.unfreeze()
    return out


@contextmanager
def progress_bars(console: Console | None, transient: bool = False) -> Iterator[NewBar]:
    """Progress bars with the time left: from a name and a number of repetitions, `on_progress`.

    Parameters
    ----------
    console
        Where they are shown; None: nowhere.
    transient
        Whether they disappear at the end.
    """
    if console is None:
        yield lambda name, total: lambda done: None
        return
    from rich import progress

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("repetitions"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=console,
        transient=transient,
    ) as bars:

        def new(name: str, total: int) -> Progress:
            bar = bars.add_task(name, total=total)
            return lambda done: bars.update(bar, completed=done)

        yield new
