"""`python -m tests.fuzz --minutes 60`: hostile files and messages for so long, and what came of it.

The exit status is 1 if anything but a FedcoverError escaped, or memory passed the limit.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.fuzz import files, messages, running


def kinds(only: list[str]) -> list[tuple[str, running.Attempt]]:
    """All kinds of cases, or those of these names."""
    found: dict[str, running.Attempt] = {one.name: partial(of_file, one) for one in files.CASES}
    found |= messages.ATTEMPTS
    if unknown := sorted(set(only) - set(found)):
        raise SystemExit(f"no kind is called {unknown[0]!r}; there are {', '.join(found)}")
    return [(name, make) for name, make in found.items() if not only or name in only]


def of_file(case: files.Case, rng: random.Random, folder: Path) -> None:
    """A file written and read."""
    case.read(case.write(rng, folder / case.name.replace(" ", "-")))


def report(found: dict[str, running.Tally], seconds: float, limit: int) -> str:
    """The figures, as a table; then what escaped, each once."""
    lines = [f"{'':22} {'cases':>8} {'clean':>8} {'errors':>7} {'stray':>6} {'peak MiB':>9}"]
    for name, tally in found.items():
        lines.append(
            f"{name:22} {tally.tried:8} {tally.clean:8} {len(tally.errors):7} "
            f"{len(tally.strays):6} {tally.peak:9.0f}"
        )
    cases = sum(tally.tried for tally in found.values())
    errors = {error for tally in found.values() for error in tally.errors}
    strays = sum(len(tally.strays) for tally in found.values())
    most = max(tally.peak for tally in found.values())
    lines.append(
        f"{cases} cases in {seconds / 60:.1f} minutes, {len(errors)} different errors of ours, "
        f"{strays} strays; peak {most:.0f} MiB resident, with {limit} MiB allowed beyond the start"
    )
    for name, tally in found.items():
        seen = set()
        for number, what in tally.strays.items():
            place = what.partition(":")[0] + what[-40:]
            if place not in seen:
                seen.add(place)
                lines.append(f"STRAY {name} --case {number}: {what}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--memory", type=int, default=2048, help="MiB beyond those at the start")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="only the case of this number, with its traceback")
    parser.add_argument("--every", type=float, default=300, help="seconds between reports")
    parser.add_argument("kind", nargs="*", help="kinds of cases; default all")
    given = parser.parse_args()
    os.fsync = lambda handle: None  # a fuzzed file needs to survive no power failure
    chosen = kinds(given.kind)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if given.case is not None:
            for name, make in chosen:
                make(random.Random(f"{name}/{given.case}"), folder)
            return 0
        running.limit_memory(given.memory)
        begun = said = time.monotonic()
        found: dict[str, running.Tally] = {}
        for found in running.rounds(chosen, folder, 60 * given.minutes, given.start):
            if time.monotonic() - said > given.every:
                said = time.monotonic()
                print(report(found, said - begun, given.memory), flush=True)
        print(report(found, time.monotonic() - begun, given.memory), flush=True)
    return int(any(tally.strays for tally in found.values()))


if __name__ == "__main__":
    sys.exit(main())
