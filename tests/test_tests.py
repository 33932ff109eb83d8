"""What all tests keep to: no private names of the package, and no way out before the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.rglob("*.py"))
PRIVATE = re.compile(r"_[a-zA-Z]")
PATH = re.compile(r"fedcover\.[\w.]*\._[a-zA-Z]\w*$")  # `_io` and `_moved` are modules


def root(node: ast.expr) -> str:
    """The first name of a chain such as fc.engines.base."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def private_names(tree: ast.Module) -> Iterator[str]:
    """Underscored names that a test imports from the package or takes from what it imported."""
    ours = {"fc", "fedcover"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedcover"):
            ours |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and root(node.value) in ours:
            yield from [node.attr] * bool(PRIVATE.match(node.attr))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from PATH.findall(node.value)
    yield from (name for name in ours if PRIVATE.match(name))


def early_returns(tree: ast.Module) -> Iterator[str]:
    """Tests with a return of their own, not of a function inside."""
    for test in ast.walk(tree):
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            inside: list[ast.AST] = list(test.body)
            while inside:
                node = inside.pop()
                if isinstance(node, ast.Return):
                    yield test.name
                if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
                    inside += ast.iter_child_nodes(node)


def of_all_tests(look) -> set[str]:
    return {
        f"{path.name}: {name}"
        for path in FILES
        for name in look(ast.parse(path.read_text(encoding="utf-8")))
    }


def test_tests_use_no_private_name_of_the_package():
    """Or they would hold the code still where no user can see a difference."""
    assert of_all_tests(private_names) == set()


def test_no_test_returns_early():
    """Or some of its cases would pass with nothing looked at."""
    assert of_all_tests(early_returns) == set()


@pytest.mark.parametrize(("look", "text", "found"), [
    (private_names, "from fedcover.site import _x", ["_x"]),
    (private_names, "from fedcover import site\nsite._x", ["_x"]),
    (private_names, "import fedcover as fc\nfc.engines.base._x", ["_x"]),
    (private_names, "patch('fedcover.site._x')", ["fedcover." + "site._x"]),
    (private_names, "patch('fedcover._io.facts.x')", []),
    (private_names, "from fedcover import site\nsite.__name__\nother._x", []),
    (early_returns, "def test_a():\n    if b:\n        return\n    c()", ["test_a"]),
    (early_returns, "def test_a():\n    def b():\n        return 1\n    b()", []),
    (early_returns, "def a():\n    return 1", []),
])  # fmt: skip
def test_it_finds_them(look, text, found):
    assert list(look(ast.parse(text))) == found
