"""The one writer of files: what is read is the old file or the new one, whole, and it lasts."""

from __future__ import annotations

import ast
import os
import stat
import threading
from pathlib import Path

import pytest

import fedcover as fc
from fedcover._io.writing import part_of, replacing, replacing_bytes, write
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.client_state import ClientState


class Killed(BaseException):
    """Nothing can catch it."""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file.txt").write_text("old")
    return tmp_path / "file.txt"


def names(path):
    return [one.name for one in path.parent.iterdir()]


def test_the_file_the_name_and_then_the_folder_reach_the_disk(path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace

    def synced(handle):
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        done.append("folder" if folder else f"file of {os.fstat(handle).st_size} bytes")
        fsync(handle)

    def renamed(*names):
        done.append("name")
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write(path, "newer")
    assert done == ["file of 5 bytes", "name", "folder"]


STEPS = [("open", 1), ("fsync", 1), ("replace", 1), ("fsync", 2)]


def fill(path, error=None):
    with replacing_bytes(path) as file:
        file.write(b"ne")
        if error is not None:
            raise error
        file.write(b"w")


@pytest.mark.parametrize("error", [Killed(), OSError(28, "No space left on device")])
@pytest.mark.parametrize(("step", "call"), [*STEPS, ("write", 1)])
def test_a_crash_at_any_step_leaves_a_whole_file_and_no_part(path, monkeypatch, step, call, error):
    real, calls = getattr(os, step), []

    def failing(*facts, **more):
        calls.append(step)
        if len(calls) == call:
            raise error
        return real(*facts, **more)

    with monkeypatch.context() as system:
        if step != "write":
            system.setattr(os, step, failing)
        with pytest.raises((Killed, fc.FileError)):
            fill(path, error if step == "write" else None)
    assert path.read_text() == ("new" if (step, call) == ("fsync", 2) else "old")
    assert names(path) == ["file.txt"]
    fill(path)
    assert path.read_text() == "new"


@pytest.mark.parametrize("step", ["link", "fsync"])
def test_a_file_that_is_made_is_there_whole_or_not_at_all(tmp_path, monkeypatch, step):
    def killed(*facts):
        raise Killed

    path = tmp_path / "made"
    with monkeypatch.context() as system:
        system.setattr(os, step, killed)
        with pytest.raises(Killed), part_of(path, new=True) as part:
            part.write_text("new")
    assert names(path) == []
    with part_of(path, new=True) as part:
        part.write_text("new")
        assert not path.exists()
    with pytest.raises(FileExistsError), part_of(path, new=True) as part:
        part.write_text("newer")
    assert path.read_text() == "new"
    assert names(path) == ["made"]


def test_a_folder_that_cannot_be_synced_is_no_reason_to_fail(path, monkeypatch):
    """Some network drives say so; and a folder may be open to writing, but not to reading."""
    real = os.fsync

    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(22, "Invalid argument")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write(path, "new")
    assert path.read_text() == "new"


def test_of_two_at_once_each_writes_a_whole_file(path):
    together = threading.Barrier(2)

    def job(text):
        with replacing(path) as file:
            file.write(text)
            together.wait(10)
            file.write(text)
            together.wait(10)

    threads = [threading.Thread(target=job, args=(text * 9999,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in ("a" * 2 * 9999, "b" * 2 * 9999)
    assert names(path) == ["file.txt"]


def test_what_a_link_points_to_is_replaced(path):
    link = path.with_name("link")
    link.symlink_to(path)
    write(link, b"new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_a_pipe_is_written_to(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write(pipe, "through")
    reader.join()
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_name_as_long_as_names_may_be(tmp_path):
    path = tmp_path / ("ä" * 127)
    write(path, "new")
    assert path.read_text() == "new"


def test_a_secret_is_closed_to_others_from_its_first_byte(tmp_path):
    before = os.umask(0)
    try:
        with part_of(tmp_path / "secret", 0o600) as part:
            assert stat.S_IMODE(part.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
        Checkpoint(tmp_path / "rounds").begin({"run": "november"})
        ClientState(tmp_path / "state").score_seed()
    finally:
        os.umask(before)
    for secret in ("rounds/run.json", "state/score-seed"):
        assert stat.S_IMODE((tmp_path / secret).stat().st_mode) == 0o600


def test_secrets_of_a_process_that_was_killed_are_gone_at_the_next_letter(tmp_path):
    state = ClientState(tmp_path / "state")
    state.agree("november", {"method": "sketch"})
    killed = part_of(state.folder / "sums.bin", 0o600)  # and never left
    killed.__enter__().write_bytes(b"secret")
    assert [one.read_bytes() for one in state.folder.glob("*.part")] == [b"secret"]
    with state.locked():
        assert not list(state.folder.glob("*.part"))
    assert state.sum_state() is None
    assert state.agreed("november") == {"method": "sketch"}


def test_one_seed_is_drawn_and_kept_whoever_asks_first(tmp_path):
    state, drawn = ClientState(tmp_path / "state"), []
    threads = [threading.Thread(target=lambda: drawn.append(state.score_seed())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 8
    assert len(set(drawn)) == 1
    assert ClientState(tmp_path / "elsewhere").score_seed() != drawn[0]


PAST_THE_WRITER = {
    "engines/flower/simulation.py: write_bytes",  # between processes of one user, gone with the run
    "engines/remote/client_state.py: open",  # the log, which grows line by line
    "engines/remote/heads.py: open",  # a lock, which stays empty
}


def written_directly(tree):
    """Calls that write a file, but for those that fill a part of `part_of`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        name = node.func.attr if owner else getattr(node.func, "id", "")
        if isinstance(owner, ast.Name) and owner.id == "part":
            continue
        modes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        for_writing = any(isinstance(m, str) and set(m) & set("wax") and len(m) < 4 for m in modes)
        if name in ("write_text", "write_bytes", "tofile") or (name == "open" and for_writing):
            yield name


def test_all_files_of_the_package_are_written_here():
    package = Path(fc.__file__).parent
    found = {
        f"{path.relative_to(package).as_posix()}: {name}"
        for path in package.rglob("*.py")
        for name in written_directly(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == PAST_THE_WRITER
