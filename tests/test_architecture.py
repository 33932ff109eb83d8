"""docs/architecture.md says what is so: its layers, its tree, and where each word lives."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/fedcover"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def section(head: str) -> str:
    return PAGE.split(f"\n## {head}\n")[1].split("\n## ")[0]


def rows(head: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section(head).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_layers_are_those_of_the_contract():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {c["name"]: c for c in config["tool"]["importlinter"]["contracts"]}
    said = [re.findall(r"`([^`]+)`", names) for names, _ in rows("The layers")]
    assert said == [re.findall(r"[\w.]+", x) for x in contracts["Layers, one way"]["layers"]]
    on = " on ".join(f"`{name}`" for name in contracts["Engines"]["layers"])
    assert on in section("The layers")


def test_the_tree_names_every_module_once_and_none_that_is_not_there():
    (tree,) = re.findall(r"```text\n(.*?)```", section("The tree"), re.DOTALL)
    folders, said = [], []
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, purpose = line.strip().partition(" ")
        assert purpose.strip() or name == "fedcover/", line
        folders[depth:] = [name]
        said.append("".join(folders[1 : depth + 1]))
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    there = {path.as_posix() for path in modules if path.name != "__init__.py"}
    packages = {f"{p.as_posix()}/" for path in modules for p in path.parents if p.name}
    assert sorted(said) == sorted(there | packages | {""})


def test_every_word_lives_where_it_is_said_to():
    words = rows("Glossary")
    assert [word for word, *_ in words] == sorted((w for w, *_ in words), key=str.lower)
    for word, meaning, places in words:
        assert meaning, word
        for place in re.findall(r"`([^`]+)`", places):
            assert (PACKAGE / place).exists(), f"{word}: {place}"


COMMANDS = PACKAGE / "cli"  # a file is called as its command
ONE_FILE = PACKAGE / "engines/flower/app"


def test_the_docstring_of_a_package_maps_its_files():
    packages = [path.parent for path in PACKAGE.rglob("__init__.py")]
    for package in set(packages) - {PACKAGE, COMMANDS, ONE_FILE}:
        text = (package / "__init__.py").read_text(encoding="utf-8")
        words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(text)) or ""))
        inside = {path.stem for path in package.glob("*.py")} - {"__init__"}
        inside |= {path.parent.name for path in package.glob("*/__init__.py")}
        assert inside <= words, f"{package.name}: {inside - words}"
