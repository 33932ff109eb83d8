"""A site that dies while it answers from its ledger, again and again; run by test_ledger_crash.py.

The program imports everything once and forks a child for every attempt. What a child writes into
its pipe has left the site; nothing else has. Deaths come by SIGKILL: at the steps of an answer, at
each system call by which SQLite changes the disk (before it, after half of it, after it; its table
of system calls can be replaced for tests), and at random times. After each death the parent reads
the ledger and compares it with all that ever left.

    python crashing.py SCENARIO FOLDER COUNT     prints {"kills": …, "problems": […], …}
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from fedcover import wire
from fedcover._io.facts import digest
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message
from fedcover.privacy import accounting, ledger
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import TOLERANCE, Budget
from fedcover.privacy.ledger_store import LedgerFile

DELTA, ANSWERS = 1e-5, 12
EVENT = GaussianRelease("label counts", sigma=20.0, sensitivity=1.0)
BUDGET = Budget(accounting.gaussian_epsilon(20.0, ANSWERS, DELTA), DELTA)  # for exactly ANSWERS
QUERY = Message("counts", numbers={"count_noise": 20.0})
STEPS = ("start", "locked", "compute", "computed", "append", "written", "committed", "returned")
REFUSED, ANSWERED = 3, 0
RANDOM = random.Random(0)


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def fresh():
    """A reply whose noise tells two computations apart; long enough to fill several pages."""
    return Message("counts", {"noisy": np.frombuffer(os.urandom(12_000), dtype=np.int64)})


def dies_before(function):
    def killed(*args, **kwargs):
        die()

    return killed


def dies_after(function):
    def killed(*args, **kwargs):
        function(*args, **kwargs)
        die()

    return killed


# SQLite's own system calls


INT, SIZE, POINTER, TEXT = ctypes.c_int, ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_char_p


class Vfs(ctypes.Structure):
    """The start of struct sqlite3_vfs, version 3."""

    _fields_ = [
        ("numbers", INT * 3),
        ("pointers", POINTER * 3),
        ("methods", POINTER * 13),
        ("set_call", ctypes.CFUNCTYPE(INT, POINTER, TEXT, POINTER)),
        ("get_call", ctypes.CFUNCTYPE(POINTER, POINTER, TEXT)),
    ]


CALLS = {
    "open": (INT, TEXT, INT, INT),
    "write": (SIZE, INT, POINTER, SIZE),
    "pwrite": (SIZE, INT, POINTER, SIZE, ctypes.c_int64),
    "pwrite64": (SIZE, INT, POINTER, SIZE, ctypes.c_int64),
    "ftruncate": (INT, INT, ctypes.c_int64),
    "unlink": (INT, TEXT),
    "openDirectory": (INT, TEXT, ctypes.POINTER(INT)),
}
KEPT = []


def sqlite_vfs():
    """The file layer of the SQLite that this Python uses, or None where it cannot be reached."""
    import _sqlite3

    try:
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = ctypes.POINTER(Vfs)
        found = library.sqlite3_vfs_find(None)
    except (OSError, AttributeError):
        return None
    return found if found and found.contents.numbers[0] >= 3 else None


def intercept(on_call):
    """Ask on_call(name, number, arguments, original) before every call that changes the disk."""
    vfs, number = sqlite_vfs(), 0

    def replace(name, signature):
        kind = ctypes.CFUNCTYPE(*signature, use_errno=True)
        address = vfs.contents.get_call(ctypes.addressof(vfs.contents), name.encode())
        if not address:
            return
        original = kind(address)

        def call(*arguments):
            nonlocal number
            changes = name != "open" or arguments[1] & os.O_CREAT
            number += bool(changes)
            result = on_call(name, number, arguments, original) if changes else None
            return original(*arguments) if result is None else result

        KEPT.append(kind(call))
        pointer = ctypes.cast(KEPT[-1], POINTER).value
        vfs.contents.set_call(ctypes.addressof(vfs.contents), name.encode(), pointer)

    for name, signature in CALLS.items():
        replace(name, signature)


def kill_at_call(number, moment):
    def on_call(name, n, arguments, original):
        if n != number:
            return
        if moment == "half" and "write" in name:
            original(arguments[0], arguments[1], arguments[2] // 2, *arguments[3:])
        elif moment == "after":
            original(*arguments)
        die()

    intercept(on_call)


def full_from_call(number, once):
    def on_call(name, n, arguments, original):
        if (n == number if once else n >= number) and name not in ("unlink", "openDirectory"):
            ctypes.set_errno(errno.ENOSPC)
            return -1
        return None

    intercept(on_call)


# One attempt


def attempt(path, query_id, sabotage=lambda: None, step=None, delay=None, leaky=False, show=None):
    """Answer in a child; returns (what left, exit status or minus the signal)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            sabotage()
            status = answer(path, query_id, writer, step, leaky)
            if show:
                show()
        finally:
            os._exit(status)
    os.close(writer)
    if delay is not None:
        select.select([reader], [], [], delay)
        os.kill(child, signal.SIGKILL)
    left = b""
    while part := os.read(reader, 1 << 16):
        left += part
    os.close(reader)
    return left, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def answer(path, query_id, writer, step, leaky):
    site = Ledger(path)
    patches = {
        "start": (LedgerFile, "transaction", dies_before),
        "locked": (LedgerFile, "read", dies_before),
        "append": (LedgerFile, "append", dies_before),
        "written": (LedgerFile, "append", dies_after),
        "committed": (ledger.wire, "decode", dies_before),
    }
    if step in patches:
        owner, name, how = patches[step]
        setattr(owner, name, how(getattr(owner, name)))

    def compute():
        if step == "compute":
            die()
        reply = fresh()
        if leaky:  # what a ledger must never do: let the reply out before it is written down
            os.write(writer, wire.encode(reply))
        if step == "computed":
            die()
        return reply

    try:
        reply = site.answer(query_id, QUERY, [EVENT], compute)
    except FedcoverError as error:
        if "the query asks for" not in str(error) and "could not be" not in str(error):
            raise
        return REFUSED
    if step == "returned":
        die()
    if not leaky:
        os.write(writer, wire.encode(reply))
    return ANSWERED


class Witness:
    """Everything that ever left, and every entry ever seen; says what does not fit together."""

    def __init__(self, folder):
        self.folder, self.problems, self.kills, self.ledgers = Path(folder), [], Counter(), 0
        self.renew()

    def renew(self):
        self.ledgers += 1
        self.path = self.folder / f"{self.ledgers}.ledger"
        Ledger(self.path, create=BUDGET)
        self.left, self.entries = defaultdict(set), []

    def saw(self, query_id, left, status, where=None):
        if status == -signal.SIGKILL:
            self.kills[where] += 1
        elif status not in (ANSWERED, REFUSED):
            self.problems.append(f"{where}: child ended with {status}")
        if left:
            self.left[query_id].add(digest(left))
        self.check(where)

    def check(self, where):
        state = Ledger(self.path).state()
        stored = {e.query_id: e.reply for e in state.answers}
        for query_id, replies in self.left.items():
            if len(replies) > 1:
                self.problems.append(f"{where}: two answers to {query_id}")
            if query_id not in stored:
                self.problems.append(f"{where}: the charge for {query_id} is lost")
            elif replies != {stored[query_id]}:
                self.problems.append(f"{where}: {query_id} is stored with another reply")
        if list(state.entries[: len(self.entries)]) != self.entries:
            self.problems.append(f"{where}: entries vanished")
        if len(stored) != len(state.answers):
            self.problems.append(f"{where}: one query is charged twice")
        spent = accounting.gaussian_epsilon(20.0, len(stored), DELTA) if stored else 0.0
        if abs(spent - state.spent) > 1e-6 or spent > BUDGET.epsilon + TOLERANCE:
            self.problems.append(f"{where}: {spent} is spent, the ledger says {state.spent}")
        self.entries = list(state.entries)

    def report(self, **more):
        kinds = dict(sorted(self.kills.items()))
        return {"kills": self.kills.total(), "problems": self.problems, "at": kinds, **more}


def count_calls(folder):
    """How many system calls of one answer change the disk, and which."""
    names = []
    path = Path(folder) / "count.ledger"
    Ledger(path, create=BUDGET)
    log = Path(folder) / "calls.json"
    attempt(
        path,
        "one",
        sabotage=lambda: intercept(lambda name, *rest: names.append(name)),
        show=lambda: log.write_text(json.dumps(names)),
    )
    return json.loads(log.read_text())


def ways_to_die(calls):
    """Every step of an answer, and every system call before, half way and after."""
    ways = {f"step {step}": {"step": step} for step in STEPS}
    for n in range(1, calls + 1):
        for moment in ("before", "half", "after"):
            sabotage = functools.partial(kill_at_call, n, moment)
            ways[f"call {n} {moment}"] = {"sabotage": sabotage}
    return ways


def kills(folder, count, leaky=False):
    """Die `count` times, retry in between, and compare after every attempt.

    Each way to die once (a sample of them if `count` is small), random times for the rest.
    """
    ways = ways_to_die(len(count_calls(folder)) if sqlite_vfs() else 0)
    planned = list(ways) if count > len(ways) else RANDOM.sample(list(ways), count * 3 // 4)
    RANDOM.shuffle(planned)
    witness = Witness(folder)
    begun = time.perf_counter()
    attempt(witness.path, "warm", leaky=leaky)
    usual = time.perf_counter() - begun
    for number in range(10 * count):
        if not planned and witness.kills.total() >= count:
            break
        where = planned[0] if planned else "random time"
        way = ways.get(where) or {"delay": RANDOM.uniform(0, 1.2 * usual)}
        query_id = f"run/{number}"
        left, status = attempt(witness.path, query_id, **way, leaky=leaky)
        witness.saw(query_id, left, status, where)
        if planned and status == -signal.SIGKILL:
            planned.pop(0)
        elif planned:  # the budget was used up, or the answer took fewer calls: try a new ledger
            witness.renew()
            continue
        if RANDOM.random() < 0.4:  # else the next query comes first
            witness.saw(query_id, *attempt(witness.path, query_id, leaky=leaky), "retry")
        if len(witness.entries) > 1 and RANDOM.random() < 0.2:
            earlier = RANDOM.choice(witness.entries[1:]).query_id
            witness.saw(earlier, *attempt(witness.path, earlier, leaky=leaky), "repeat")
        if len(witness.entries) > ANSWERS and RANDOM.random() < 0.5:
            witness.renew()
    return witness.report(ledgers=witness.ledgers, ways=len(ways), missed=planned)


def creation(folder, count):
    """Die at every call while a ledger is made: it is then whole or not there, and can be made."""
    if not sqlite_vfs():
        return {"skipped": True}
    problems, died = [], 0
    for n in range(1, count + 1):
        path = Path(folder) / f"new-{n}.ledger"
        child = os.fork()
        if child == 0:
            kill_at_call(n, RANDOM.choice(["before", "half", "after"]))
            Ledger(path, create=BUDGET)
            os._exit(0)
        died += os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        made = Ledger(path) if path.exists() else Ledger(path, create=BUDGET)
        if len(made.state().entries) != 1:
            problems.append(f"call {n}: not a new ledger")
    return {"kills": died, "problems": problems}


def full_disk(folder, count):
    """No room at any call: no answer, nothing half done, and the next try is answered."""
    if not sqlite_vfs():
        return {"skipped": True}
    calls = count_calls(folder)
    witness, refused = Witness(folder), 0
    for n in range(1, len(calls) + 1):
        for once in (True, False):
            query_id = f"run/{n}/{once}"
            before = len(witness.entries)
            left, status = attempt(witness.path, query_id, lambda n=n, o=once: full_from_call(n, o))
            refused += status == REFUSED
            witness.saw(query_id, left, status, f"full at call {n}")
            if status == REFUSED and left:
                witness.problems.append(f"call {n}: answered though the disk was full")
            left, status = attempt(witness.path, query_id)
            witness.saw(query_id, left, status, "retry")
            if not left or len(witness.entries) != max(before, 1) + 1:
                witness.problems.append(f"call {n}: the retry was not answered once")
            if len(witness.entries) > ANSWERS:
                witness.renew()
    return witness.report(refused=refused, calls=calls)


def together(folder, count):
    """Many processes ask for their own and for common queries; the budget is for a few."""
    witness = Witness(folder)
    children = []
    for number in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            site, order = Ledger(witness.path), random.Random(number)
            ids = [f"common/{k}" for k in range(4)] + [f"own/{number}/{k}" for k in range(4)]
            order.shuffle(ids)
            with os.fdopen(writer, "w") as out:
                for query_id in ids * 2:
                    try:
                        reply = site.answer(query_id, QUERY, [EVENT], fresh)
                    except FedcoverError as error:
                        print(query_id, "refused" if "asks for" in str(error) else "?", file=out)
                    else:
                        print(query_id, digest(wire.encode(reply)), file=out)
            os._exit(0)
        os.close(writer)
        children.append((child, os.fdopen(reader)))
    lines = [line.split() for _, pipe in children for line in pipe]
    for child, pipe in children:
        pipe.close()
        os.waitpid(child, 0)
    for query_id, reply in lines:
        if reply != "refused":
            witness.left[query_id].add(reply)
    witness.check("together")
    refused = sum(reply == "refused" for _, reply in lines)
    return witness.report(
        asked=len(lines), refused=refused, answered=len(witness.left), budget=ANSWERS
    )


SCENARIOS = {
    "kills": kills,
    "leaky": lambda folder, count: kills(folder, count, leaky=True),
    "creation": creation,
    "full-disk": full_disk,
    "together": together,
}

if __name__ == "__main__":
    scenario, folder, count = sys.argv[1:]
    print(json.dumps(SCENARIOS[scenario](folder, int(count))))
