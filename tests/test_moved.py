"""Module paths of version 0.1 still work, each with one warning that names the new path."""

import importlib
import subprocess
import sys
import warnings

import pytest

import fedcover
from fedcover._moved import MOVED, PACKAGES, RENAMED


@pytest.fixture(autouse=True)
def _forgotten():
    """As in a program that has imported no old path yet."""
    for old in MOVED.keys() | PACKAGES:
        sys.modules.pop(f"fedcover.{old}", None)


def imported(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(path)
    return module, caught


@pytest.mark.parametrize("old", sorted(MOVED.keys() - PACKAGES))
def test_an_old_path_gives_the_module_with_one_warning(old):
    new = importlib.import_module(f"fedcover.{MOVED[old]}")
    module, caught = imported(f"fedcover.{old}")
    assert [w.category for w in caught] == [DeprecationWarning]
    for part in (f"fedcover.{old} ", f"fedcover.{MOVED[old]};", "0.3"):
        assert part in str(caught[0].message)
    if old not in RENAMED:
        assert module is new
    renamed = RENAMED.get(old, {})
    public = [name for name in vars(new) if not name.startswith("_") and name not in renamed]
    assert all(getattr(module, name) is getattr(new, name) for name in public)
    for before, now in renamed.items():
        elsewhere, _, name = now.rpartition(":")
        home = importlib.import_module(f"fedcover.{elsewhere}") if elsewhere else new
        assert getattr(module, before) is getattr(home, name)
    assert imported(f"fedcover.{old}") == (module, [])  # once


@pytest.mark.parametrize("old", sorted(PACKAGES))
def test_an_old_package_says_nothing_until_it_is_used(old):
    package, caught = imported(f"fedcover.{old}")
    assert caught == []
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = package.nothing_of_this_name


def test_a_name_of_an_old_package():
    from fedcover.experiments.demo.command import run as new

    with pytest.warns(DeprecationWarning, match="experiments.demo") as caught:
        from fedcover.demo import run
    assert run is new
    assert len(caught) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "import fedcover.protocols.base; method = fedcover.protocols.base.Method",
        "from fedcover.protocols.base import Method as method",
        "import fedcover.protocols.base as base; method = base.Method",
        "from fedcover.protocols import base; method = base.Method",
    ],
)
def test_every_way_to_import(statement):
    from fedcover.methods.base import Method

    space = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(statement, "a program", "exec"), space)
    assert space["method"] is Method
    assert [(w.category, w.filename) for w in caught] == [(DeprecationWarning, "a program")]


def test_a_module_is_not_taken_for_the_package_of_its_name():
    with pytest.warns(DeprecationWarning, match="methods.sketch.method"):
        from fedcover.protocols import sketch
    assert sketch.__name__ == "fedcover.methods.sketch.method"


def test_the_package_has_what_was_imported():
    with pytest.warns(DeprecationWarning, match="fedcover.api"):
        importlib.import_module("fedcover.federation")
    assert fedcover.federation is importlib.import_module("fedcover.api")


@pytest.mark.parametrize("path", ["federations", "protocols.none", "protocols.base.none"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_paths_are_not_found(path):
    with pytest.raises(ModuleNotFoundError, match=path.replace(".", r"\.")):
        importlib.import_module(f"fedcover.{path}")


def test_the_app_of_version_0_1_starts():
    """The file that `fedcover flower init` wrote then, and that stands at a server today."""
    app = (
        "from fedcover.engines.flower.client_app import client_app\n"
        "from fedcover.engines.flower.server_app import server_app\n"
        "client = client_app()\nserver = server_app()\n"
    )
    space = {}
    with pytest.warns(DeprecationWarning, match="engines.flower.apps"):
        exec(app, space)
    assert type(space["client"]).__name__ == "ClientApp"
    assert type(space["server"]).__name__ == "ServerApp"


def test_nothing_is_said_or_loaded_before_an_old_path_is_asked_for():
    code = (
        "import sys, fedcover; from fedcover._moved import MOVED;"
        "print([old for old in MOVED if f'fedcover.{old}' in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:fedcover", "-c", code],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""
