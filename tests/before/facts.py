"""What stands in the files of version 0.1.0, as plain facts; and the runs they are of."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

import fedcover as fc
from tests.before import cases, doors
from tests.before.cases import bits

FILES = Path(__file__).parent / "written"


def of_calibration(cal):
    """A calibration, and the sets it makes of new records."""
    scores = np.random.default_rng(42).random((60, cal.n_classes))
    out = {
        **cases.calibration_bits(cal),
        "target": cal.target,
        "alpha": list(cal.alpha),
        "method": cal.method,
        "options": cal.options,
        "temperature": cal.temperature,
        "label_names": cal.label_names and list(cal.label_names),
        "score": None if cal.score is None else repr(cal.score),
        "sets": bits(cal.sets_from_scores(scores).mask),
    }
    if cal.score is not None:
        p = cases.probabilities(41, 60, cal.n_classes)
        out["predicted"] = bits(cal.predict_set(p, seed=3).mask)
    return out


def of_sketch(name, sketch):
    """A sketch, and the calibration of a site from it if its edges were given.

    The last bits of the standard edges depend on the processor; one that has others than the file
    makes no calibration of it.
    """
    out = {"sketch": cases.sketch_bits(sketch)}
    if name != "standard":
        own = sketch.personalise(cases.ties()[0], [0.1, 0.3])
        out |= {"personal": cases.calibration_bits(own), "method": repr(sketch.method)}
    return out


def questions():
    """Name, query, events and reply of what the ledger was asked."""
    table = fc.privacy.GaussianRelease("table", 40.0, 4.0)
    steps = fc.privacy.GaussianRelease("steps", 9.0, 1.0, count=5)
    first = doors.Message("counts", {"x": np.arange(4)}, {"round": 0, "scale": 0.5})
    second = doors.Message("steps", {"q": np.array([[0.25, 0.75]])}, {"round": 1})
    return [
        ("november/a/0/counts", first, [table], doors.Message("counts", {"y": np.arange(3)})),
        ("november/a/1/steps", second, [steps], doors.Message("steps", {"m": np.eye(2)})),
    ]


def of_ledger(book):
    """What a ledger says."""
    state = book.state()
    return {
        "head": state.head,
        "spent": state.spent.hex(),
        "budget": asdict(state.budget),
        "entries": len(state.entries),
        "answers": [entry.query_id for entry in state.answers],
        "events": [repr(event) for event in state.events],
    }


def of_node(node):
    """What a node has read."""
    site = node.site
    return {
        "name": site.name,
        "scores": bits(np.round(site.scores, 9)),
        "score": repr(site.score),
        "temperature": site.temperature,
        "policy": doors.policy_of(node),
        "ledger": node.ledger is not None,
        "sums": node.participant is not None,
        "out": None if node.out is None else node.out.name,
    }


def of_letter(data):
    """What stands in an envelope, as JSON."""
    stage, run, number, facts, body = doors.envelope(data)
    said = None
    if body is not None:
        arrays = {key: bits(array) for key, array in body.arrays.items()}
        numbers = {key: float(value).hex() for key, value in body.numbers.items()}
        said = {"kind": body.kind, "arrays": arrays, "numbers": numbers}
    return {"stage": stage, "run": run, "number": number, "facts": facts, "body": said}


def steps(net):
    """That run."""
    return doors.Server(
        net,
        fc.methods.DPFedCP(rounds=12, solver="averaging", start=0.5, step=0.05),
        None,
        checkpoint=net.folder / "rounds",
    )


def summed(net):
    """A sketch as a secure sum."""
    return doors.Server(net, checkpoint=net.folder / "rounds", resends=0)
