"""CPU time, memory and fresh interpreters: how everything here is measured.

CPU time of this process, not the clock, because a busy machine stretches the clock. Jobs that are
compared run in turns, so that a slow spell hits all of them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil
from rich.table import Table

K = TypeVar("K")
Job = Callable[[], Any]
Prepare = Callable[[], Job]
"""Makes the input, not timed, and returns the job that is."""

ROOT = Path(__file__).resolve().parents[1]


def cpu(job: Job) -> tuple[float, Any]:
    """CPU-seconds of one call, and what it returned."""
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def cpu_split() -> tuple[float, float]:
    """CPU-seconds this process has used so far, in its own code and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime


def in_turns(jobs: Mapping[K, Prepare], repeats: int) -> dict[K, list[float]]:
    """CPU-seconds of every job, `repeats` times each, one after the other."""
    seconds: dict[K, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, prepare in jobs.items():
            seconds[name].append(cpu(prepare())[0])
    return seconds


def fresh(*arguments: str, **environment: str) -> Any:
    """What a new Python interpreter prints as JSON in its last line."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def memory() -> int:
    """Bytes of memory this process holds now."""
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Most bytes of memory this process has held.

    On Linux getrusage would also count the program that started this one, so /proc is read there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def table(title: str, *columns: str, caption: str) -> Table:
    """An empty table: the first column is text, the others are numbers."""
    made = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    made.add_column(columns[0])
    for column in columns[1:]:
        made.add_column(column, justify="right")
    return made


def seconds(value: float) -> str:
    """Seconds to three digits, in the unit that suits them."""
    return (
        f"{value * 1e3:.3g} ms"
        if value < 1
        else f"{value:,.3g} s"
        if value < 1e3
        else f"{value:,.0f} s"
    )
