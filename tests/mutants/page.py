"""The page of the documentation that says who noticed what."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping

from tests.mutants.catalogue import MUTANTS
from tests.mutants.running import ROOT, Verdict

PAGE = ROOT / "docs/mutants.md"

HEAD = """# Broken on purpose: who notices?

A test that cannot fail shows nothing, and nor does an audit. So the package is broken, one place at
a time: noise is made smaller or left out, charges are forgotten, signatures are not looked at. Each
of these mutants is a patch in `tests/mutants/catalogue.py`. `python -m tests.mutants` applies it to
a copy of the source and asks who should notice: the audit (`fedcover audit sketch --epsilon 1`,
200,000 runs on each data set), named tests, or both. Before that it sees that nobody
complains of the source as it is.

The audit looks from outside, at what a run releases, and knows nothing of the code; tests look at
what an audit cannot see: signatures, thresholds, ledgers, words. "-" means not asked.
"""


def page(verdicts: Mapping[str, Verdict]) -> str:
    """The page of the mutants that have a verdict, as markdown."""
    count = Counter(verdict.by for verdict in verdicts.values())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    said = ", ".join(
        f"{count[who]} by {words}"
        for who, words in (
            ("both", "audit and tests"),
            ("audit", "the audit alone"),
            ("test", "tests alone"),
            ("nobody", "nobody"),
        )
    )
    rows = [
        f"| {m.name} | {m.breaks} | {_cell(verdicts[m.name].audit)} | {_test(verdicts[m.name])} |"
        for m in MUTANTS
        if m.name in verdicts
    ]
    return "\n".join(
        [
            HEAD,
            f"At commit `{commit}`, {len(rows)} of {len(MUTANTS)} mutants were tried: {said}.",
            "",
            "| mutant | what is broken | audit | the first test that fails |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _cell(found: str | None) -> str:
    return "-" if found is None else "refutes" if found else "passes"


def _test(verdict: Verdict) -> str:
    if not verdict.test:
        return "-" if verdict.test is None else "**none**"
    path, _, name = verdict.test.partition("::")
    return f"`{path.removeprefix('tests/')}` {name.removeprefix('test_').replace('_', ' ')}"
