"""Audits of real methods: a true one holds, a broken one is refuted, an outside one can come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fedcover as fc
from fedcover.audit import audit_method
from fedcover.audit import method as auditing
from fedcover.audit.running import SideBySide
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message, ServerMethod, ask_all
from fedcover.methods.sketch.method import Sketch
from fedcover.privacy.randomness import SYSTEM
from fedcover.privacy.statement import RELATIONS, VIEWS, Privacy, PrivacyStatement

BINS = (0, 0.25, 0.5, 0.75, 1)
SURE = 0.9999
"""Confidence of the audits of sound methods here: a false alarm once in 10,000 runs of a test."""


@pytest.fixture(autouse=True)
def _a_short_first_look(monkeypatch):
    """What is found there is tested on fresh runs anyway."""
    monkeypatch.setattr(auditing, "FIRST", 40)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_sound_sketch_is_nearly_reached_and_not_refuted(relation, view):
    """Of 10,000 runs the Gaussian bound expects .94 of the claim, ± .015: below .86 never."""
    done = []
    asked = Privacy(2, 1e-5, relation=relation, view=view)
    found = audit_method(Sketch(BINS), asked, 10_000, confidence=SURE, progress=done.append)
    assert sum(done) == 30_000
    assert found.accounted == found.claim == pytest.approx(2, rel=1e-6)
    assert not found.contradicted
    # In a sum, only whoever is granted the share that a site knows comes this far: else .8.
    assert 0.86 * 2 < found.gaussian <= 2
    assert found.records == 6
    assert "not contradicted" in found.describe()


def reply_with(change):
    """A sketch whose sites change the numbers of their replies: change(arrays, exact arrays)."""

    class Broken(Sketch):
        @classmethod
        def answer(cls, query, site, source=SYSTEM):
            bare = {k: 0.0 for k in query.numbers if k.endswith("_sigma")}
            plain = Message(query.kind, query.arrays, {**query.numbers, **bare})
            exact = super().answer(plain, site, source).arrays
            reply = super().answer(query, site, source)
            arrays = {k: v.copy() for k, v in reply.arrays.items()}
            return Message(reply.kind, *change(arrays, exact))

    return Broken


def quieter(key, factor):
    """The noise of one part, times a factor."""

    def change(arrays, exact):
        noise = (arrays[key] - exact[key]) * factor
        return ({**arrays, key: exact[key] + np.rint(noise).astype(np.int64)},)

    return change


def bare_cell(arrays, exact):
    arrays["table"][-1, 2] = exact["table"][-1, 2]
    return (arrays,)


def one_draw_for_two(arrays, exact):
    shared = (arrays["table"] - exact["table"])[:, 0] // 2048
    return ({**arrays, "labels": exact["labels"] + shared},)


def one_draw_for_all_labels(arrays, exact):
    return ({**arrays, "table": exact["table"] + (arrays["table"] - exact["table"])[:1]},)


def size_beside(arrays, exact):
    return arrays, {"size": int(exact["labels"][0])}


BROKEN = {
    "table × .9": quieter("table", 0.9),
    "table × .7": quieter("table", 0.7),
    "table × .5": quieter("table", 0.5),
    "totals × .7": quieter("labels", 0.7),
    "totals × .5": quieter("labels", 0.5),
    "exact totals": quieter("labels", 0.0),
    "bare cell": bare_cell,
    "one draw for two releases": one_draw_for_two,
    "one draw for all labels": one_draw_for_all_labels,
    "a size beside": size_beside,
}
EXACT = {"exact totals", "bare cell", "one draw for all labels", "a size beside"}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_what_leaves_without_noise_is_found_at_once(name):
    """Found in 40 runs, tested on as many more as it takes: by chance never."""
    found = audit_method(reply_with(BROKEN[name])(BINS), Privacy(1, 1e-5), 2000)
    assert found.contradicted
    assert found.lower == math.inf
    assert found.exact
    assert found.refutes_epsilon
    assert "CONTRADICTED" in found.describe()


@pytest.mark.parametrize("name", ["table × .7", "one draw for two releases"])
def test_too_little_noise_is_refuted(name):
    """Of 4000 runs; table × .7 adds 36 % to μ, and the bound lies 7 % below it, ± 2 %."""
    found = audit_method(reply_with(BROKEN[name])(BINS), Privacy(1, 1e-5), 4000)
    assert found.refutes_account
    assert "CONTRADICTED" in found.describe()
    assert "the Gaussian account" in found.describe()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BROKEN.keys() - EXACT))
def test_a_little_too_little_noise_is_refuted(name):
    """Totals × .7 add 7.5 % to μ, and 20,000 runs see 3 ± 1 %: missed less than once in 100 times.

    Each other adds more.
    """
    found = audit_method(reply_with(BROKEN[name])(BINS), Privacy(1, 1e-5), 20_000)
    assert found.refutes_account


def test_a_bare_cell_among_the_usual_bins_is_found():
    def bare(arrays, exact):
        if arrays["table"].shape[1] > 900:
            arrays["table"][1, 900] = exact["table"][1, 900]
        return (arrays,)

    found = audit_method(reply_with(bare)(), Privacy(1, 1e-5), 2000)
    assert found.lower == math.inf
    assert found.exact == ("table of site site-0, round 0 [2740]",)


def test_known_noise_is_found(monkeypatch):
    import fedcover.privacy.randomness as randomness

    monkeypatch.setattr(randomness.os, "urandom", lambda n: np.random.default_rng(0).bytes(n))
    found = audit_method(Sketch(BINS), Privacy(1, 1e-5), 2000)
    assert found.lower == math.inf


def test_a_claim_of_ones_own():
    found = audit_method(Sketch(BINS), Privacy(4, 1e-5), 5000, claim=1)
    assert found.claim == 1
    assert found.accounted == pytest.approx(4, rel=1e-6)
    assert found.contradicted


def test_a_budget_that_the_statement_exceeds_is_the_claim(monkeypatch):
    """The statement says 2.3 for a budget of 2; the user was promised 2."""
    from fedcover.privacy import accounting

    single = accounting.noise_multiplier
    monkeypatch.setattr(accounting, "noise_multiplier", lambda *given: 0.9 * single(*given))
    found = audit_method(Sketch(BINS), Privacy(2, 1e-5), 10_000)
    assert found.accounted > 2.2
    assert found.claim == 2
    assert found.refutes_account


@dataclass(frozen=True)
class Asked(ServerMethod):
    """Randomised response to "does a record have label 0?", a method from outside."""

    stated: float = 1.0
    kept: float = 1.0
    label: ClassVar[str] = "Randomised response"
    shares_scores: ClassVar[bool] = False
    guarantee: ClassVar[str] = "none"
    reveals: ClassVar[str] = "one bit per site"
    most_rounds: ClassVar[int] = 2

    def server(self, task):
        yield ask_all(task, Message("ready"))
        replies = yield ask_all(task, Message("bit", numbers={"epsilon": self.kept}))
        return {name: reply.numbers["bit"] for name, reply in replies.items()}

    def statement(self, task):
        return PrivacyStatement(**{**vars(task.privacy), "epsilon": self.stated})

    @classmethod
    def answer(cls, query, site, source=SYSTEM):
        if query.kind == "ready":
            return Message("ready")
        truth = bool((site.labels[-1] == 0).any())
        lies = int.from_bytes(source.take(7)) < 2**56 / (1 + math.exp(query.numbers["epsilon"]))
        return Message("bit", numbers={"bit": int(truth != lies)})


def test_a_method_from_outside():
    """No Gaussian releases: only the threshold bound speaks. ε = 1 and 2 give .87 and 1.8 ± .05."""
    true = audit_method(Asked(1.0, 1.0), Privacy(3, 1e-5), 6000, confidence=SURE)
    assert true.gaussian is None
    assert 0.6 < true.lower <= 1
    assert not true.contradicted
    false = audit_method(Asked(1.0, 2.0), Privacy(3, 1e-5), 6000)
    assert false.refutes_epsilon
    assert not false.refutes_account
    assert 1.5 < false.lower < 2.1


def test_a_rare_lie_is_not_taken_for_an_exact_number():
    """At ε = 9 a bit is nearly always true: 200 runs look exact, and nothing is refuted."""
    found = audit_method(Asked(9.0, 9.0), Privacy(9, 1e-5), 1500, confidence=SURE)
    assert not found.contradicted
    assert not found.exact
    assert found.lower < 9


def test_nothing_leaves_and_nothing_is_refuted():
    found = audit_method(fc.methods.Local(), Privacy(1, 1e-5), 1000)
    assert found.claim == found.lower == 0
    assert not found.contradicted


def test_dp_fedcp_with_a_budget():
    found = audit_method(fc.methods.DPFedCP(), Privacy(4, 1e-5), 4000, confidence=SURE)
    assert 0.8 * 4 < found.gaussian <= 4
    assert not found.contradicted


@pytest.mark.slow
def test_the_exponential_mechanism(monkeypatch):
    """What is published alone, at δ = 0; with weights of eight times the ε it is refuted."""
    method = fc.methods.ExponentialMechanism(epsilon=1, bins=64)
    found = audit_method(method, None, 4000, confidence=SURE)
    assert found.claim == 1
    assert found.delta == 0
    assert not found.contradicted
    base = type(method)._base
    monkeypatch.setattr(
        type(method), "_base", lambda self, task: int(base(self, task) ** 8 / 2**140)
    )
    assert audit_method(method, None, 4000).refutes_epsilon


@pytest.mark.parametrize(
    ("method", "privacy", "labels"),
    [
        (Sketch(BINS, confusion=True), Privacy(4, 1e-5), 2),
        (Sketch(BINS, groups=(0, 0, 1)), Privacy(4, 1e-5), 3),
        (Sketch(BINS, most_per_site=2), Privacy(4, 1e-5, unit="site"), 2),
        (Sketch(BINS, most_per_site=20), Privacy(4, 1e-5, relation="add-remove"), 2),
    ],
    ids=["confusion", "groups", "sites", "limit"],
)
@pytest.mark.slow
def test_other_sketches_are_reached(method, privacy, labels):
    """At 4000 runs, at least two thirds; and the claim is kept, but once in 10,000 times."""
    found = audit_method(method, privacy, 4000, labels=labels, confidence=SURE)
    assert not found.contradicted
    assert found.gaussian > 0.66 * 4


@pytest.mark.parametrize(
    ("method", "privacy"),
    [
        (fc.methods.Pooled(), None),
        (fc.methods.DPFedCP(), None),
        (Sketch(), Privacy(1, 1e-5, unit="site")),
        (Sketch(most_per_site=3), Privacy(1, 1e-5, unit="site", relation="add-remove")),
    ],
)
def test_refuses_what_makes_no_claim_or_cannot_be_run(method, privacy):
    with pytest.raises(FedcoverError):
        audit_method(method, privacy, 100)


def test_refuses_wrong_numbers():
    for wrong in ({"runs": 5}, {"claim": -1}, {"confidence": 1.0}):
        with pytest.raises(FedcoverError):
            audit_method(Sketch(BINS), Privacy(1, 1e-5), **{"runs": 100, **wrong})


def test_what_belongs_to_no_label_does_not_go_side_by_side(monkeypatch):
    class Shared(Sketch):
        @classmethod
        def answer(cls, query, site, source=SYSTEM):
            reply = super().answer(query, site, source)
            return Message(reply.kind, {**reply.arrays, "more": np.zeros(3, dtype=np.int64)})

    with pytest.raises(FedcoverError, match="belongs to no label"):
        audit_method(Shared(BINS), Privacy(1, 1e-5), 1000)


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_runs_side_by_side_have_the_law_of_runs_alone(relation, view, monkeypatch):
    """The same audit without the accelerator: the same bounds, within five standard errors."""
    asked = Privacy(4, 1e-5, relation=relation, view=view)
    together = audit_method(Sketch(BINS), asked, 4000)
    monkeypatch.setattr(Sketch, "independent_labels", 0)
    monkeypatch.setattr(SideBySide, "draw", None)
    by_itself = audit_method(Sketch(BINS), asked, 4000)
    assert by_itself.gaussian == pytest.approx(together.gaussian, rel=0.15)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("view", VIEWS)
def test_forty_audits_reach_the_claim_and_rarely_exceed_it(epsilon, view):
    """False alarms at 5 % each: more than five of forty come once in 70 times."""
    found = [audit_method(Sketch(), Privacy(epsilon, 1e-5, view=view)) for _ in range(40)]
    reached = [a.gaussian / a.claim for a in found]
    refuted = sum(a.contradicted for a in found)
    print(f"ε = {epsilon}, {view}: {min(reached):.3f} to {max(reached):.3f}, {refuted} refuted")
    assert refuted <= 5
    assert min(reached) >= 0.9


def test_the_runs_that_teach_choose_and_bound_are_all_of_them():
    assert 0 < auditing.LEARNING + auditing.CHOOSING < 0.5
