"""What is published: built, installed in an environment of its own, and typed for its users."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import fedcover

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]

ROOT = Path(__file__).parents[1]
SOURCE = Path(fedcover.__file__).parent

USER = """
import fedcover as fc
import numpy as np

probs = np.full((40, 3), 1 / 3)
labels = np.arange(40) % 3
site = fc.Site.from_probabilities("home", probs, labels, seed=0)
calibrations = fc.calibrate([site], alpha=0.1, method=fc.methods.Local())
calibration: fc.Calibration = calibrations["home"]
sizes = calibration.predict_set(probs, seed=0).sizes
print(float(sizes.mean()), fc.__version__)
"""


def ran(*command, cwd):
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    ran(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A new environment with the wheel; it borrows the libraries, and nothing of the source."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env/bin/python"
    ran(python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=folder)
    own = Path(ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
                   cwd=folder).strip())  # fmt: skip
    (own / "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    (folder / "user.py").write_text(USER, encoding="utf-8")
    return folder, python, own


def test_wheel_has_every_file_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("fedcover/")}
    files = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == files
    assert "fedcover/py.typed" in packed


def test_sdist_builds_the_same_wheel(wheel, environment, tmp_path):
    """The source archive alone is enough, and has the licence and the tests."""
    build = "from hatchling.build import build_sdist; print(build_sdist({!r}))"
    python = environment[1]
    ran(python, "-m", "pip", "install", "-q", "hatchling>=1.25", cwd=tmp_path)
    name = ran(python, "-c", build.format(str(tmp_path)), cwd=ROOT).split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert (source / "LICENSE").exists()
    ran(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, source,
        cwd=tmp_path)  # fmt: skip
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as two:
        assert {(i.filename, i.CRC) for i in one.infolist()} == {
            (i.filename, i.CRC) for i in two.infolist()
        }


def test_installed_package_runs_from_its_own_files(environment):
    folder, python, own = environment
    where = ran(python, "-c", "import fedcover; print(fedcover.__file__)", cwd=folder).strip()
    assert Path(where).is_relative_to(own)
    assert ran(python, "user.py", cwd=folder).split()[-1] == fedcover.__version__
    printed = ran(python.parent / "fedcover", "--version", cwd=folder)
    assert printed.split() == ["fedcover", fedcover.__version__]


def test_types_reach_the_programs_of_users(environment):
    folder, python, _ = environment
    check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    assert "no issues" in ran(*check, "user.py", cwd=folder)
    wrong = USER.replace("calibration: fc.Calibration", "calibration: fc.Site")
    (folder / "wrong.py").write_text(wrong, encoding="utf-8")
    done = subprocess.run(
        [*map(str, check), "wrong.py"], cwd=folder, capture_output=True, text=True
    )
    assert "incompatible type" in done.stdout.casefold()
