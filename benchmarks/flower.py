"""Flower: many virtual clients on one machine, and T rounds over a real deployment.

    python -m benchmarks.flower simulation 10 100 1000
    python -m benchmarks.flower deployment 20

A simulation collects an exact sketch, in two exchanges with every client (hello, table). Each size
runs in a fresh interpreter. Memory is the sum of the resident sizes of all its processes, with Ray;
pages that several share count several times. A deployment (SuperLink and three nodes on this
machine, TLS, node keys) runs Algorithm 1 and is compared bit for bit with the in-process engine.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

import fedcover as fc
from benchmarks import federation, measure
from benchmarks.scaling import slope

RECORDS, CLASSES = 50, 10


def simulations(sizes: list[int]) -> Table:
    """Seconds and memory of one sketch, by number of clients."""
    got = {size: measure.fresh("-m", "benchmarks.flower", "once", str(size)) for size in sizes}
    growth = ""
    if len(sizes) > 1:
        times = {n: g["exchange"] for n, g in got.items()}
        ends = dict(list(times.items())[-2:])
        growth = f" Growth: exchange ∝ clients^{slope(times):.2f}, between the two largest "
        growth += (
            f"^{slope(ends):.2f}; memory ^{slope({n: g['memory'] for n, g in got.items()}):.2f}."
        )
    made = measure.table(
        "One exact sketch over Flower's simulation",
        "clients",
        "all of it",
        "one exchange",
        "per client",
        "memory",
        caption=f"{RECORDS} records of {CLASSES} classes at each client. All of it: start of Ray, "
        f"hello, one exchange of tables, end.{growth}",
    )
    for size, g in got.items():
        made.add_row(
            f"{size:,}",
            measure.seconds(g["seconds"]),
            measure.seconds(g["exchange"]),
            measure.seconds(g["exchange"] / size),
            f"{g['memory'] / 1e9:.2f} GB",
        )
    return made


class Timed(fc.methods.Sketch):
    """A sketch whose server half keeps the time from its question to the end of its answers."""

    took = 0.0

    def server(self, task: Any) -> Any:
        start = time.perf_counter()
        table = yield from super().server(task)
        Timed.took = time.perf_counter() - start
        return table


def once(size: int) -> dict[str, float]:
    """One simulation in this process."""
    peak = _Peak()
    sites = federation.sites([RECORDS] * size, CLASSES)
    start = time.perf_counter()
    sketch = fc.collect(sites, Timed(), engine=fc.engines.FlowerSimulation(seconds=3600.0))
    seconds = time.perf_counter() - start
    assert np.array_equal(sketch.table.table, fc.collect(sites).table.table)
    return {"seconds": seconds, "exchange": Timed.took, "memory": peak.stop()}


class _Peak:
    """The most memory of this process and all below it, looked at five times a second."""

    def __init__(self) -> None:
        self.most, self._on = 0, True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while self._on:
            self.most = max(self.most, self._now())
            time.sleep(0.2)

    def _now(self) -> int:
        this = psutil.Process()
        total = 0
        for process in [this, *this.children(recursive=True)]:
            try:
                total += process.memory_info().rss
            except psutil.Error:  # ended in the meantime
                continue
        return total

    def stop(self) -> int:
        self._on = False
        self._thread.join()
        return self.most


def deployment(rounds: int) -> Table:
    """Algorithm 1 over a deployment, bit for bit that of the in-process engine."""
    from tests.flower.conftest import SITES, write_data
    from tests.flower.deployment import Deployment

    with tempfile.TemporaryDirectory() as folder:
        made = Deployment(Path(folder) / "federation", SITES)
        write_data(made.folder / "data")
        for name in SITES:
            made.configure(
                name,
                f'name="{name}"\ndata="data/site-{name}.npz"\nstate="state/{name}"\n'
                f'out="calibrations/{name}.json"\nexact=true\nseed=0\n',
            )
        try:
            made.start_superlink()
            made.register(*SITES)
            for name in SITES:
                made.start_node(name)
            start = time.perf_counter()
            options = f"rounds={rounds},solver=averaging"
            settings = {"run": "averaging", "method": "dp-fedcp", "epsilon": 0.0}
            log = made.run(**settings, options=options, seconds=300.0, patient=3600)
            seconds = time.perf_counter() - start
            files = {n: made.folder / f"calibrations/{n}.json" for n in SITES}
            if not all(path.exists() for path in files.values()):
                raise SystemExit(log)
            there = {name: fc.Calibration.load(path) for name, path in files.items()}
            paths = [made.folder / f"data/site-{name}.npz" for name in SITES]
            sites = [fc.Site.from_file(path, seed=0) for path in paths]
        finally:
            made.close()
    method = fc.methods.DPFedCP(rounds=rounds, solver="averaging")
    here = fc.calibrate(sites, 0.1, method, seed=0)
    same = all(np.array_equal(there[n].thresholds, here[n].thresholds) for n in SITES)
    cost = there[SITES[0]].cost
    shown = measure.table(
        "DP-FedCP, Algorithm 1, over a deployment of three nodes on this machine",
        "T",
        "rounds",
        "seconds",
        "per round",
        "bytes up",
        "bytes down",
        "as in process",
        caption="Bytes per site. TLS, node keys; every envelope starts a process at its node.",
    )
    shown.add_row(
        str(rounds),
        str(cost.rounds),
        f"{seconds:.0f}",
        f"{seconds / cost.rounds:.1f}",
        f"{cost.bytes_up:,}",
        f"{cost.bytes_down:,}",
        "bit for bit" if same else "NO",
    )
    return shown


def main() -> None:
    what, *numbers = sys.argv[1:] or ["simulation", "10", "100", "1000"]
    counts = [int(number) for number in numbers]
    if what == "once":
        print(json.dumps(once(counts[0])))
        return
    table = simulations(counts) if what == "simulation" else deployment(*(counts or [20]))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
