"""Algorithm 1, against a transcription of its lines in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.position import scores_at

DPFedCP = fc.methods.DPFedCP

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def gradient(q, values, weights, alpha, gamma):
    """∇S^{i,γ}: the Moreau gradient under the measure Σ_k weights_k δ_{values_k} of mass 1."""
    return float(weights @ np.clip((q - values) / gamma, alpha - 1, alpha))


def algorithm_1(sites, w, y, alpha, *, rounds, steps, step, gamma, start, chosen=None):
    """DP-FedAvgQE for one query label, line by line; returns q_T and all Σ_i λ^i Δq̄^i."""
    n_total, n_sites = sum(len(s) for s in sites), len(sites)
    everything = sum(w[s.labels].sum() for s in sites) + w[y]
    mixture, measures = [], []
    for s in sites:  # eq. (14)
        mass = np.append(w[s.labels], len(s) / n_total * w[y]) / everything
        mixture.append(mass.sum())
        measures.append((np.append(s.scores, 1.0), mass / mass.sum() if mass.sum() else mass))
    q, means = start, []
    for t in range(rounds):
        active = range(n_sites) if chosen is None else chosen[t]
        move = mean = 0.0
        for i in active:
            local, path = q, []
            for _ in range(steps):
                local = local - step * gradient(local, *measures[i], alpha, gamma)
                path.append(local)
            move += mixture[i] * (local - q)
            mean += mixture[i] * np.mean(path)
        q += n_sites / len(active) * move
        means.append(n_sites / len(active) * mean)
    return q, np.array(means)


def transcription(sites, cal, alphas, average, **options):
    out = np.empty(cal.thresholds.shape)
    for a, alpha in enumerate(alphas):
        for y in range(cal.n_classes):
            last, means = algorithm_1(sites, cal.ratios, y, alpha, **options)
            tail = means[(len(means)) // 2 :]
            out[a, y] = {"all": means.mean(), "tail": tail.mean(), "last": last}[average]
    order = np.argsort(alphas)[::-1]  # sets are nested in α
    out[order] = np.maximum.accumulate(np.clip(out, 0, 1)[order], axis=0)
    return out


@pytest.mark.parametrize("average", ["all", "tail", "last"])
@pytest.mark.parametrize(
    ("step", "gamma", "start"), [(1e-3, 1e-6, 0.5), (0.05, 0.3, 0.0), (0.2, 0.01, 1.0)]
)
def test_equals_the_transcription(federation, average, step, gamma, start):
    sites = federation(np.random.default_rng(0), n_sites=3, n_classes=3, kind="ties", most=30)
    alphas = (0.1, 0.3)
    method = DPFedCP(rounds=14, local_steps=4, step=step, gamma=gamma, start=start, average=average)
    for name, cal in fc.calibrate(sites, alpha=alphas, method=method).items():
        expected = transcription(
            sites, cal, alphas, average, rounds=14, steps=4, step=step, gamma=gamma, start=start
        )
        assert cal.thresholds == pytest.approx(expected, abs=1e-10), name


def test_one_site_without_the_targets_labels_has_no_say(federation):
    a = fc.Site("a", [0.2, 0.4, 0.9], [0, 0, 0], n_classes=2)
    b = fc.Site("b", [0.1, 0.5], [1, 1], n_classes=2)
    method = DPFedCP(rounds=6, local_steps=3, step=0.1, average="all", start=0.5)
    cal = fc.calibrate([a, b], targets="a", method=method)["a"]
    expected = transcription(
        [a, b], cal, (0.1,), "all", rounds=6, steps=3, step=0.1, gamma=1e-6, start=0.5
    )
    # Label 0 needs 9 records of its weight and has 3: its exact threshold is the mass at 1.
    assert cal.thresholds[0, 0] == 1.0
    assert cal.thresholds[0, 1] == pytest.approx(expected[0, 1], abs=1e-10)


@pytest.mark.slow
def test_converges_to_the_exact_quantile_when_run_long_enough(federation):
    sites = federation(np.random.default_rng(1), n_sites=2, least=15, most=20)
    exact = fc.calibrate(sites, alpha=0.3, method=fc.methods.EstimatedWeights())["s0"]
    slow = DPFedCP(rounds=20_000, local_steps=1, step=1e-3, gamma=1e-3, average="tail")
    cal = fc.calibrate(sites, alpha=0.3, method=slow)["s0"]
    assert cal.thresholds == pytest.approx(exact.thresholds, abs=3e-3)


def chosen_sites(method, n_rounds):
    """Who was asked in each of the rounds of gradient steps."""
    names = [name for name, query, _ in method.heard if query.kind == "steps"]
    starts = [query.arrays["q"] for _, query, _ in method.heard if query.kind == "steps"]
    rounds = [[int(names[0][1:])]]
    for k in range(1, len(names)):
        if starts[k] is starts[k - 1]:
            rounds[-1].append(int(names[k][1:]))
        else:
            rounds.append([int(names[k][1:])])
    assert len(rounds) == n_rounds or n_rounds is None
    return rounds


@pytest.mark.parametrize("options", [{"sites_per_round": 2}, {"participation": 0.4}], ids=str)
def test_partial_participation_scales_by_n_over_s(spy, federation, options):
    sites = federation(np.random.default_rng(2), n_sites=5, n_classes=3, least=5)
    common = {"step": 0.02, "gamma": 0.05, "start": 0.5}
    method = spy(DPFedCP(rounds=12, local_steps=3, average="all", **common, **options))
    cal = fc.calibrate(sites, method=method, targets="s0", seed=7)["s0"]
    chosen = chosen_sites(method, None if "participation" in options else 12)
    assert len({tuple(c) for c in chosen}) > 1
    if "sites_per_round" in options:
        assert {len(c) for c in chosen} == {2}
    expected = transcription(
        sites, cal, (0.1,), "all", rounds=len(chosen), steps=3, chosen=chosen, **common
    )
    assert cal.thresholds == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("options", [{"sites_per_round": 2}, {"participation": 0.4}], ids=str)
def test_participants_follow_the_seed_and_are_chosen_evenly(spy, federation, options):
    sites = federation(np.random.default_rng(2), n_sites=5)
    runs = []
    for seed in (0, 0, 1):
        method = spy(DPFedCP(rounds=400, local_steps=1, step=1e-3, **options))
        fc.calibrate(sites, method=method, targets="s0", seed=seed)
        runs.append(chosen_sites(method, None if "participation" in options else 400))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    share = np.bincount(np.concatenate(runs[0]), minlength=5) / 400
    assert np.abs(share - 0.4).max() < 0.123  # five standard errors


def test_rounds_that_nobody_joins_move_nothing(federation):
    sites = federation(np.random.default_rng(2), n_sites=2)
    never = DPFedCP(rounds=50, participation=1e-12, start=0.25, subsample=False)
    cal = fc.calibrate(sites, method=never, targets="s0", alpha=0.4, seed=0)["s0"]
    assert set(cal.thresholds[0]) <= {0.25, 1.0}


def test_gradient_noise_comes_from_the_operating_system(federation):
    sites = federation(np.random.default_rng(3))
    noisy = DPFedCP(rounds=5, local_steps=2, step=1e-2, gradient_noise=1.0)
    a, b = (fc.calibrate(sites, method=noisy, seed=0)["s0"].thresholds for _ in range(2))
    still = DPFedCP(rounds=5, local_steps=2, step=1e-2)
    c, d = (fc.calibrate(sites, method=still, seed=0)["s0"].thresholds for _ in range(2))
    assert not np.array_equal(a, b)
    assert np.array_equal(c, d)
    assert not np.array_equal(a, c)


def test_subsampled_run_uses_the_drawn_records_only(spy, federation):
    sites = federation(np.random.default_rng(4), n_sites=3, least=20)
    method = spy(DPFedCP(rounds=4, local_steps=2, step=0.05, gamma=0.1, average="all",
                         subsample=True, start=0.5))  # fmt: skip
    cal = fc.calibrate(sites, method=method, targets="s1", seed=3)["s1"]
    asked = {n: q.numbers for n, q, _ in method.heard if q.kind == "steps"}
    drawn = []
    for s in sites:
        v, y = s.sorted_records(int(asked[s.name]["size"]), int(asked[s.name]["seed"]))
        drawn.append(fc.Site(s.name, scores_at(v), y, n_classes=4) if len(v) else None)
    assert cal.n_records == sum(len(d) for d in drawn)
    assert cal.n_records <= sum(len(s) for s in sites) // 2
    total = sum(len(s) for s in sites)
    expected = np.empty(4)
    for y in range(4):  # eq. (14) keeps N^i/N of the full sizes for the query's mass
        w = cal.ratios
        everything = sum(w[d.labels].sum() for d in drawn) + w[y]
        q, means = 0.5, []
        for _ in range(4):
            move = mean = 0.0
            for s, d in zip(sites, drawn, strict=True):
                mass = np.append(w[d.labels], len(s) / total * w[y])
                local, path = q, []
                for _ in range(2):
                    local -= 0.05 * gradient(
                        local, np.append(d.scores, 1), mass / mass.sum(), 0.1, 0.1
                    )
                    path.append(local)
                move += mass.sum() / everything * (local - q)
                mean += mass.sum() / everything * np.mean(path)
            q, means = q + move, [*means, mean]
        expected[y] = np.mean(means)
    assert cal.thresholds[0] == pytest.approx(expected, abs=1e-10)


def test_only_steps_and_totals_travel(spy, federation):
    sites = federation(np.random.default_rng(4), least=20)
    method = spy(DPFedCP(rounds=3, start=0.5))
    fc.calibrate(sites, method=method)
    allowed = {"counts": {"label_counts"}, "totals": {"totals"}, "steps": {"move", "mean"}}
    raw = np.concatenate([s.scores for s in sites])
    for _, _, reply in method.heard:
        assert set(reply.arrays) == allowed[reply.kind]
        for array in reply.arrays.values():
            assert not np.isin(array, raw).any()
    assert {r.kind for _, _, r in method.heard} == set(allowed)


@pytest.mark.parametrize(
    "options", [{"step": 1e308}, {"step": 0.1, "gradient_noise": 1e308}], ids=str
)
def test_a_run_that_flies_apart_is_refused_without_a_stray_warning(federation, options):
    with pytest.raises(fc.FedcoverError):
        fc.calibrate(federation(np.random.default_rng(0)), method=DPFedCP(rounds=3, **options))
