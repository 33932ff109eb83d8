"""Break the package and see who notices: ``python -m tests.mutants [--only NAME] [--jobs N]``.

Run from the root of the repository. Verdicts are kept, so an interrupted run goes on where it was.
It writes docs/mutants.md of all mutants that have been judged as the source is now. Status 1 if a
mutant survives.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.page import PAGE, page
from tests.mutants.running import (
    ROOT,
    Verdict,
    copy_of_the_source,
    digest_of_the_source,
    examine,
    judged,
    key_of,
    patched,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="this mutant; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--kept", type=Path, default=ROOT / ".mutants.jsonl", help="the verdicts")
    options = parser.parse_args()
    if unknown := set(options.only or ()) - {m.name for m in MUTANTS}:
        parser.error(f"no mutant is called {', '.join(sorted(unknown))}")
    chosen = [m for m in MUTANTS if not options.only or m.name in options.only]
    for mutant in chosen:
        patched(mutant, (ROOT / mutant.path).read_text(encoding="utf-8"))

    source, verdicts = digest_of_the_source(), known(options.kept)
    keys = {m.name: key_of(m, source) for m in chosen}
    left = [m for m in chosen if keys[m.name] not in verdicts]
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            copies.put(copy_of_the_source(Path(folder) / str(number)))

        def one(mutant: Mutant) -> None:
            copy, began = copies.get(), time.monotonic()
            try:
                verdict = examine(mutant, copy)
            finally:
                copies.put(copy)
            verdicts[keys[mutant.name]] = verdict
            with open(options.kept, "a", encoding="utf-8") as file:
                file.write(json.dumps({"key": keys[mutant.name], **asdict(verdict)}) + "\n")
            done = sum(keys[m.name] in verdicts for m in chosen)
            seconds = time.monotonic() - began
            print(f"{done}/{len(chosen)} {mutant.name}: {verdict.by}, {seconds:.0f} s", flush=True)

        if left:
            audits = tuple(dict.fromkeys(a for m in left for a in m.audits))
            tests = tuple(dict.fromkeys(t for m in left for t in m.tests))
            sound = unbroken(audits, tests, copies)
            if sound is not None:
                print(f"unbroken, this fails already: {sound}")
                return 1
        with ThreadPoolExecutor(options.jobs) as pool:
            for _ in pool.map(one, left):
                pass

    found = {m.name: verdicts[keys[m.name]] for m in chosen}
    survivors = [name for name, verdict in found.items() if verdict.by == "nobody"]
    every = {m.name: verdicts.get(key_of(m, source)) for m in MUTANTS}
    judged_now = {name: verdict for name, verdict in every.items() if verdict is not None}
    PAGE.write_text(page(judged_now), encoding="utf-8")
    for name in survivors:
        print(f"SURVIVED: {name}")
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    return 1 if survivors else 0


def unbroken(
    audits: tuple[str, ...], tests: tuple[str, ...], copies: SimpleQueue[Path]
) -> str | None:
    """What complains of the source as it is: it would be no witness. None if all is well."""
    print(f"the source as it is: {len(audits)} audits, {len(tests)} tests", flush=True)
    copy = copies.get()
    verdict = judged(audits, tests, copy)
    copies.put(copy)
    return verdict.audit or verdict.test or None


def known(path: Path) -> dict[str, Verdict]:
    """The verdicts of earlier runs, by key."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line.pop("key"): Verdict(**line) for line in lines}


if __name__ == "__main__":
    sys.exit(main())
