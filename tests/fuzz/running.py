"""Cases one after the other: what each raised, and the memory that each kind took.

A case is a kind and a number, from which all that is random in it comes. Only a FedcoverError may
escape; a warning that is not ours, a case that takes more than a minute, and memory beyond the
limit count as stray, too.
"""

from __future__ import annotations

import random
import re
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fedcover as fc

SECONDS = 60
"""Longest time of a case."""

Attempt = Callable[[random.Random, Path], object]
"""Makes a case from random numbers, in a folder, and lets the package have it."""


REFUSED: Counter[str] = Counter()
"""Errors that came where a case goes on after them, since the last look."""


def each(*calls: Callable[[], object]) -> None:
    """All calls; one that is refused keeps none of the others from being made."""
    for call in calls:
        try:
            call()
        except fc.FedcoverError as error:
            REFUSED[shape_of(error)] += 1


class Stray(Exception):
    """Something that a case should not end in, and that is no exception."""


@dataclass
class Tally:
    """What came of the cases of one kind.

    tried, clean : cases, and those of them in which nothing was refused; errors : how often each
    error came, without its numbers and names; strays : case number to what escaped; peak : MiB.
    """

    tried: int = 0
    clean: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    strays: dict[int, str] = field(default_factory=dict)
    peak: float = 0.0


def attempt(tally: Tally, make: Attempt, number: int, folder: Path, name: str) -> None:
    """One case."""
    tally.tried += 1
    REFUSED.clear()
    rng = random.Random(f"{name}/{number}")
    try:
        with _on_time(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", fc.FedcoverWarning)
            make(rng, folder)
        tally.clean += not REFUSED
    except fc.FedcoverError as error:
        REFUSED[shape_of(error)] += 1
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [f for f in where if "/fedcover/" in f.filename] or where
        at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        tally.strays[number] = f"{type(error).__name__}: {str(error)[:300]} ({at})"
    tally.errors.update(REFUSED)


def shape_of(error: fc.FedcoverError) -> str:
    """The error without what is different every time."""
    text = re.sub(r"/\S+|'[^']*'|\"[^\"]*\"", "…", error.given)
    return f"{type(error).__name__}: {re.sub(r'[-+]?[0-9][0-9.e+-]*', '#', text)[:80]}"


def rounds(
    kinds: Iterable[tuple[str, Attempt]], folder: Path, seconds: float, start: int = 0
) -> Iterator[dict[str, Tally]]:
    """All kinds in turn, a case each, until the time is over; yields after each turn."""
    found = {name: Tally() for name, _ in kinds}
    until, number = time.monotonic() + seconds, start
    while time.monotonic() < until:
        for name, make in kinds:
            forget_peak()
            attempt(found[name], make, number, folder, name)
            found[name].peak = max(found[name].peak, peak())
        number += 1
        yield found


@contextmanager
def _on_time() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Stray(f"took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limit_memory(mib: int) -> None:
    """No more than so much memory beyond what the process has now: what asks for it fails."""
    now = _status("VmSize")
    most = int((now + mib) * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def peak() -> float:
    """Most memory that this process has held, in MiB."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    """From here on `peak` is that of what follows, where the system can do that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _status(key: str) -> float:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return next(int(x.split()[1]) / 1024 for x in text.splitlines() if x.startswith(key + ":"))
