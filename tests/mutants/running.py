"""One mutant at a time in a copy of the source: does the audit refute it, does a test fail?"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.catalogue import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "pyproject.toml")
LONGEST = 900
"""Seconds for one command; one that takes longer has noticed nothing."""


@dataclass(frozen=True)
class Verdict:
    """Who noticed a mutant.

    Attributes
    ----------
    audit
        The audit that refuted it; None if it has none, empty if all let it pass.
    test
        The first test that failed; None and empty likewise.
    """

    audit: str | None
    test: str | None

    @property
    def by(self) -> str:
        """Audit, test, both or nobody."""
        caught = {"audit": self.audit, "test": self.test}
        who = [name for name, how in caught.items() if how]
        return "both" if len(who) == 2 else who[0] if who else "nobody"


def patched(mutant: Mutant, text: str) -> str:
    """The source of its file with the patch, which must fit in exactly one place."""
    found = text.count(mutant.old)
    if found != 1:
        raise ValueError(f"{mutant.name}: {mutant.path} has {found} times:\n{mutant.old}")
    return text.replace(mutant.old, mutant.new)


def copy_of_the_source(folder: Path) -> Path:
    """Package and tests, where they can be broken."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def digest_of_the_source() -> str:
    """Changes with the package and its tests, but not with this list and who should notice."""
    total = hashlib.sha256()
    for path in sorted((*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"))):
        if path.parent.name != "mutants":
            total.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def key_of(mutant: Mutant, source: str) -> str:
    """Under what a verdict is kept: another source or another mutant is another question."""
    return hashlib.sha256(f"{source} {asdict(mutant)}".encode()).hexdigest()[:24]


def examine(mutant: Mutant, copy: Path) -> Verdict:
    """Break the copy, ask the audits and the tests, and mend it again."""
    target = copy / mutant.path
    sound = target.read_text(encoding="utf-8")
    target.write_text(patched(mutant, sound), encoding="utf-8")
    try:
        return judged(mutant.audits, mutant.tests, copy)
    finally:
        target.write_text(sound, encoding="utf-8")


def judged(audits: tuple[str, ...], tests: tuple[str, ...], copy: Path) -> Verdict:
    """The first audit that refutes, and the first test that fails."""
    refuted = next((a for a in audits if _refutes(a, copy)), "") if audits else None
    return Verdict(refuted, _failing(tests, copy) if tests else None)


def _refutes(audit: str, copy: Path) -> bool:
    done = _run(["fedcover", "audit", *shlex.split(audit)], copy)
    if done is None or done.returncode == 0:
        return False
    # An audit that breaks down has refuted nothing.
    if done.returncode != 3 or "CONTRADICTED" not in done.stdout:
        raise RuntimeError(f"fedcover audit {audit}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return True


def _failing(tests: tuple[str, ...], copy: Path) -> str:
    options = ["-n0", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    chosen = ["-m", "not deployment and not statistical", *tests]
    done = _run(["pytest", *options, *chosen], copy)
    if done is None or done.returncode == 0:
        return ""
    named = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or named is None:
        raise RuntimeError(f"pytest {' '.join(tests)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return named.group(1)


def _run(command: list[str], copy: Path) -> subprocess.CompletedProcess[str] | None:
    """A module as a command on the copy; None if it did not come to an end."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        # Two patches within a second and of one length would look alike to compiled files.
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "160",
    }
    try:
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return None
