"""The engine room: repetitions over the cores of this machine or over Ray, resumable.

Repetition r depends on the seed and on r alone, and rows are put in order at the end: the table is
the same for any number of workers. Finished chunks of repetitions lie beside the result until it is
complete, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import gc
import hashlib
import json
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
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.experiments import records
from fedcover.experiments.records import Results
from fedcover.experiments.study import Row, Study

if TYPE_CHECKING:
    from rich.progress import Progress

CHUNKS = 40
"""About how many parts a run is cut into: what an interruption can cost, and progress steps."""


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Where libraries read how many threads they may take."""

Computed = Iterator[tuple[range, list[Row]]]
"""Chunks of repetitions with their rows, in the order in which they are done."""

Crew = Callable[[Study, int, Sequence[range]], Computed]
"""Who computes: given a study, a seed and chunks of repetitions."""


def run(
    study: Study,
    folder: Path,
    repetitions: int,
    seed: int = 0,
    crew: Crew | None = None,
    tell: Callable[[int], None] = lambda done: None,
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
    crew
        Who computes; this process alone unless given.
    tell
        Called with the number of repetitions done, after each chunk.
    """
    checks.whole(repetitions, "repetitions", 1)
    records.pyarrow_modules()  # a missing extra is said before anything is computed
    facts = {
        "experiment": study.name,
        "settings": study.settings(),
        "seed": seed,
        "repetitions": repetitions,
        "code": records.code(),
        "versions": records.versions(),
    }
    mark = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    path = folder / f"{study.name}.parquet"
    parts = folder / f"{study.name}-{mark}.parts"
    if path.exists():
        old = records.load(path)
        if old.facts.get("mark") == mark:
            shutil.rmtree(parts, ignore_errors=True)  # left by a crash after the last chunk
            tell(repetitions)
            return old
        if old.repetitions > repetitions:
            raise FedcoverError(
                f"{path} holds {old.repetitions} repetitions of another run, more than "
                f"{repetitions}",
                allowed="a folder without a larger table of this experiment",
                fix="Choose another --out, or delete that table",
            )
    parts.mkdir(parents=True, exist_ok=True)
    size = max(1, -(-repetitions // CHUNKS))
    chunks = [range(a, min(a + size, repetitions)) for a in range(0, repetitions, size)]
    missing = [c for c in chunks if not _part(parts, c).exists()]
    done = repetitions - sum(len(c) for c in missing)
    tell(done)
    for chunk, rows in (crew or alone)(study, seed, missing):
        records.save(records.of_rows(rows, {}), _part(parts, chunk))
        done += len(chunk)
        tell(done)
    tables = (records.load(_part(parts, c)) for c in chunks)
    results = records.joined(tables, {**facts, "mark": mark})
    records.save(results, path)
    shutil.rmtree(parts)
    return results


def _part(parts: Path, chunk: range) -> Path:
    return parts / f"{chunk.start}-{chunk.stop}.parquet"


def alone(study: Study, seed: int, chunks: Sequence[range]) -> Computed:
    """One chunk after the other, in this process."""
    for chunk in chunks:
        yield chunk, _rows(study, seed, chunk)


@contextmanager
def processes(workers: int | None = None) -> Iterator[Crew]:
    """A crew of processes on this machine, as many as there are cores unless said.

    They live until the end of the `with` block, so that several studies share what they compile
    and read.
    """
    workers = checks.whole(os.cpu_count() if workers is None else workers, "workers", 1)
    # "spawn": threads of numba and BLAS do not survive a fork. Each process is one worker: more
    # threads would only get in each other's way, and BLAS reads its number when it is loaded.
    context, before = get_context("spawn"), {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:

        def crew(study: Study, seed: int, chunks: Sequence[range]) -> Computed:
            jobs = {pool.submit(_rows, study, seed, chunk): chunk for chunk in chunks}
            for job in as_completed(jobs):
                yield jobs[job], job.result()

        try:
            yield crew
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
    task = ray.remote(_rows)
    jobs = {task.remote(study, seed, chunk): chunk for chunk in chunks}
    waiting = list(jobs)
    while waiting:
        (ready, *_), waiting = ray.wait(waiting)
        yield jobs[ready], ray.get(ready)


def _rows(study: Study, seed: int, chunk: range) -> list[Row]:
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
def bar(show: bool) -> Iterator[Progress | None]:
    """A progress bar with the time left."""
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("repetitions"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield progress
