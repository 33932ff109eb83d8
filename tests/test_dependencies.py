"""What the package leans on: all of it declared, none of it older than a known fix."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import distributions, packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CARRIED = {
    "click": "typer",  # its exceptions are click's
    "markupsafe": "jinja2",  # the type of its safe texts
    "threadpoolctl": "scikit-learn",
    "ray": "flwr",  # of its extra for simulations
}
"""Packages that another one brings along and is made of."""

FIXED = {
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "cryptography": ("44.0.1", "CVE-2024-12797"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "pillow": ("10.3.0", "CVE-2024-28219"),
    "pyarrow": ("14.0.1", "CVE-2023-47248"),
    "pycryptodome": ("3.19.1", "CVE-2023-52323"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "scikit-learn": ("1.5.0", "CVE-2024-5206"),
    "urllib3": ("2.5.0", "CVE-2025-50181"),
}
"""First version without the newest advisory that is known to us, and that advisory."""

INSTALLED = {canonicalize_name(d.metadata["Name"]) for d in distributions()}


def declared() -> dict[str, Requirement]:
    """Every dependency for users by name, those of extras for development left out."""
    extras = PROJECT["optional-dependencies"]
    users = ("parquet", "pandas", "secure", "flower")
    lines = [*PROJECT["dependencies"], *(line for extra in users for line in extras[extra])]
    needed = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in needed if r.name != PROJECT["name"]}


def imported() -> set[str]:
    """Top-level packages that the source imports, inside functions too."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"fedcover"}


def test_every_import_is_a_declared_dependency():
    known, owners = declared(), packages_distributions()
    strays = {}
    for package in imported():
        names = {canonicalize_name(n) for n in owners.get(package, [package])}
        names |= {canonicalize_name(CARRIED[package])} if package in CARRIED else set()
        if not names & set(known):
            strays[package] = names
    assert not strays


def test_every_dependency_is_imported():
    owners = packages_distributions()
    used = {canonicalize_name(n) for p in imported() for n in owners.get(p, [p])}
    assert set(declared()) <= used


@pytest.mark.parametrize("name", sorted(declared().keys() & FIXED.keys()))
def test_no_lower_bound_admits_a_version_with_a_known_weakness(name):
    bounds = [s.version for s in declared()[name].specifier if s.operator in (">=", "==")]
    assert bounds
    assert max(map(Version, bounds)) >= Version(FIXED[name][0]), FIXED[name][1]


@pytest.mark.parametrize("name", sorted(INSTALLED & FIXED.keys()))
def test_nothing_installed_has_a_known_weakness(name):
    assert Version(version(name)) >= Version(FIXED[name][0]), FIXED[name][1]


def test_an_exact_pin_says_why():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(text):
        if re.search(r'"[\w\[\]-]+==\d', line):
            assert "#" in line or text[number - 1].lstrip().startswith("#"), line
