"""Writes all that the tests here read: `python -m tests.before.write`, from the root.

Run with version 0.1.0 at commit ad6c72e, the last one before the modules moved, and never again:
what is compared with has to come from before. It is kept to show how the files were made.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

import fedcover as fc
from tests.before import cases, doors, facts
from tests.before.cases import M, bits
from tests.before.facts import FILES

HERE = Path(__file__).parent


class Killed(BaseException):
    """Ends a run where it is."""


def calibrations(out):
    """Calibrations by name, with new records and their sets."""
    plain, model, named = cases.plain(), cases.model(), labelled()
    sketch = doors.collect(5, cases.ties(), M.Sketch(bins=64), cases.SUMMED)
    found = {
        "exact": fc.calibrate(plain, (0.1, 0.2), M.DPFedCP())["b"],
        "local": fc.calibrate(model, 0.1, M.Local())["y"],
        "certified": sketch.personalise(cases.ties()[0], [0.1, 0.3], certify=0.9),
        "labelled": fc.calibrate(named, (0.05, 0.2), M.EstimatedWeights())["north"],
    }
    wanted = {}
    for name, cal in found.items():
        cal.save(out / f"{name}.json")
        wanted[name] = facts.of_calibration(cal)
    return wanted


def labelled():
    """Two sites from logits, with a temperature and names."""
    rng, out = np.random.default_rng(6), []
    for name in ("north", "south"):
        logits, labels = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
        names = ["healthy", "ill", "naïve"]
        out.append(fc.Site.from_logits(name, logits, labels, 1.5, seed=2, label_names=names))
    return out


def sketches(out):
    """Sketches by name, with the calibration of a site."""
    sites, edges = cases.ties(), tuple((np.arange(65) / 64).tolist())
    plain, confused = M.Sketch(bins=edges), M.Sketch(bins=edges, confusion=True)
    grouped = M.Sketch(bins=edges, groups=tuple("uuvvww"), most_per_site=200)
    found = {
        "exact": fc.collect(sites, plain),
        "private": doors.collect(6, sites, confused, cases.SUMMED),
        "grouped": doors.collect(7, sites, grouped, cases.PRIVATE),
        "standard": doors.collect(7, sites, M.Sketch(bins=64), cases.PRIVATE),
    }
    wanted = {}
    for name, sketch in found.items():
        sketch.save(out / f"{name}.npz")
        wanted[name] = facts.of_sketch(name, sketch)
    return wanted


def ledger(path):
    """Two answers and a change of budget between them."""
    book = fc.privacy.Ledger(path, create=fc.privacy.Budget(1.0, 1e-5))
    replies = {}
    for number, (name, query, events, reply) in enumerate(facts.questions()):
        if number:
            book.set_budget(epsilon=3.0)
        replies[name] = doors.encoded(book.answer(name, query, events, lambda r=reply: r)).hex()
    return {**facts.of_ledger(book), "replies": replies}


def interrupted(folder):
    """A run of Algorithm 1 without privacy, killed before its eighth round."""
    net = doors.Net(folder, doors.made(3), rules=doors.OPEN)
    ended = {name: fit.thresholds for name, fit in fresh(facts.steps).items()}
    server, letters = facts.steps(net), Heard(net)
    net.fault = letters.fault("ask", 7)
    with suppress(Killed):
        server.go()
    return letters, {name: bits(array) for name, array in ended.items()}


def fresh(server):
    """What the run of Algorithm 1 ends with when nothing interrupts it."""
    with tempfile.TemporaryDirectory() as folder:
        net = doors.Net(Path(folder), doors.made(3), rules=doors.OPEN)
        return server(net).go()


class Heard:
    """The letters that one site gets and sends."""

    def __init__(self, net):
        self.net, self.sent, self.got = net, {}, {}

    def fault(self, stage, number=0):
        def fault(name, letter, answer):
            key = "hello" if letter.stage == "hello" else f"{letter.stage}-{doors.kind(letter)}"
            if name == "s0":
                self.sent[key] = letter.to_bytes()
            if number == letter.number and stage in (letter.stage, doors.kind(letter)):
                raise Killed
            reply = answer()
            if name == "s0":
                self.got[key] = reply
            return reply

        return fault


def in_a_sum(folder):
    """A secure sum, killed when all masked numbers are in; and what it ends with after that."""
    net = doors.Net(folder, budget=doors.BUDGET)
    letters = Heard(net)
    net.fault = letters.fault("agree")
    with suppress(Killed):
        facts.summed(net).go()
    with tempfile.TemporaryDirectory() as other:
        copy = Path(other) / "net"
        shutil.copytree(folder, copy)
        again = doors.Net(copy, budget=doors.BUDGET)
        again.fault = (more := Heard(again)).fault("nothing")
        server = facts.summed(again)
        table = server.go()
        sketch = fc.SketchResult(table, None, fc.Cost(1, 0, 0))
        finish = doors.finish_letter("november", sketch, (0.1, 0.2))
        reply = again.node(0).handle(finish)
        cal = fc.Calibration.load(copy / "s0.json")
    letters.sent |= {"sum-unmask": more.sent["sum-unmask"], "finish": finish}
    letters.got |= {"sum-unmask": more.got["sum-unmask"], "finish": reply}
    letters.got["refused"] = net.node(0).handle(doors.letter_of("ask", "unknown", 0))
    wanted = {
        "arrays": {k: bits(v) for k, v in doors.table_of(table).items()},
        "heads": net.heads(),
        "personal": cases.calibration_bits(cal),
    }
    return letters, wanted


def keep(letters, name, out):
    """The letters of one run as files, and what stands in them."""
    wanted = {}
    for way, some in (("to", letters.sent), ("from", letters.got)):
        for key, data in some.items():
            file = f"{name}-{way}-site-{key}.bin"
            (out / file).write_bytes(data)
            wanted[file] = facts.of_letter(data)
    return wanted


NODE = """\
data = "FOLDER/site-north.npz"
state = "FOLDER/north"
name = "north"
out = "FOLDER/north.json"
ledger = "FOLDER/north.ledger"
key = "FOLDER/north.key"
roster = "FOLDER/roster"
methods = "sketch, dp-fedcp, estimated-weights"
least-sum = 4
score = "raps"
"""

OPEN_NODE = """\
data = "FOLDER/site-south.npz"
state = "FOLDER/south"
name = "south"
methods = "pooled"
exact = true
score = "aps"
score-u = 0.5
seed = 12
temperature = 1.25
logits = true
"""

RUN = """\
run = "november-2"
method = "dp-fedcp"
options = ""
alpha = "0.05,0.1"
certify = 0.9
epsilon = 2.0
delta = 1e-6
unit = "record"
relation = "add-remove"
view = "secure-sum"
sites = 4
threshold = 3
roster = "roster"
seconds = 60.0
resends = 1
seed = 5
out = "results"
"""

OPEN_RUN = """\
run = "december"
method = "dp-fedcp"
options = "rounds=20, solver=averaging, start=0.5"
alpha = 0.2
sites = 3
"""


def nodes(out):
    """Configurations of nodes and runs, the state of one node, and what is read from them."""
    rng = np.random.default_rng(8)
    logits, labels = rng.integers(-30, 30, (40, 3)) / 10, rng.integers(0, 3, 40)
    probs = cases.probabilities(9, 40, 3)
    np.savez_compressed(out / "site-north.npz", probs=probs, labels=labels)
    np.savez_compressed(out / "site-south.npz", logits=logits, labels=labels)
    doors.key_files(out, "north", ("north", "south", "east", "west"))
    fc.privacy.Ledger(out / "north.ledger", create=doors.BUDGET, key=out / "north.key")
    wanted = {}
    for name, text in (("north", NODE), ("south", OPEN_NODE)):
        (out / f"{name}.toml").write_text(text)
        wanted[name] = facts.of_node(doors.node_of(text, out))
    for name, text in (("run", RUN), ("open-run", OPEN_RUN)):
        (out / f"{name}.toml").write_text(text)
        wanted[name] = doors.run_of(text)
    for name in ("north.key", "north.ledger", "roster"):  # the tests make them again
        (out / name).unlink()
    return wanted


def main():
    warnings.simplefilter("ignore")
    shutil.rmtree(FILES, ignore_errors=True)
    for name in ("calibrations", "sketches", "letters", "nodes"):
        (FILES / name).mkdir(parents=True)
    wanted = {
        "calibrations": calibrations(FILES / "calibrations"),
        "sketches": sketches(FILES / "sketches"),
        "ledger": ledger(FILES / "november.ledger"),
        "nodes": nodes(FILES / "nodes"),
    }
    first, wanted["interrupted"] = interrupted(FILES / "interrupted")
    second, wanted["sum"] = in_a_sum(FILES / "sum")
    out = FILES / "letters"
    wanted["letters"] = keep(first, "plain", out) | keep(second, "sum", out)
    message = doors.Message(
        "every-type",
        {f"{k}{n}": np.arange(6, dtype=f"{k}{n}").reshape(2, 3) for k in "iu" for n in (1, 2, 4, 8)}
        | {f"f{n}": np.linspace(-1, 1, 5).astype(f"f{n}") for n in (2, 4, 8)}
        | {"empty": np.empty((0, 3)), "é": np.array(7)},
        {"whole": -(2**40), "broken": 0.1, "endless": float("inf")},
    )
    (FILES / "message.bin").write_bytes(doors.encoded(message))
    for name in ("lock", "log.txt"):
        for path in FILES.rglob(name):
            path.unlink()
    write_json(FILES / "expected.json", wanted)
    write_json(HERE / "results.json", {part: cases.computed(part) for part in cases.PARTS})


def write_json(path, parts):
    """One line for each thing of each part."""
    lines = []
    for part, things in parts.items():
        inner = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in things.items())
        lines.append(f"{json.dumps(part)}: {{\n{inner}\n}}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
