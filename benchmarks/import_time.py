"""How long `import fedcover` takes in a fresh interpreter, and which heavy packages it pulls in.

Best of several, because the first one reads files from disk. NumPy stands beside it for scale:
fedcover needs it in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from rich.table import Table

from benchmarks import measure

HEAVY = ("torch", "flwr", "matplotlib", "sklearn", "numba", "pandas", "scipy.stats")
CODE = """
import json, sys, time
start, cpu = time.perf_counter(), time.process_time()
import {module}
took = time.perf_counter() - start, time.process_time() - cpu
print(json.dumps([*took, [name for name in {heavy} if name in sys.modules]]))
"""


def tables(quick: bool) -> Iterator[Table]:
    repeats = 3 if quick else 5
    modules = ("numpy", "fedcover")
    runs = {m: [] for m in modules}
    for _ in range(repeats):
        for module in modules:
            runs[module].append(measure.fresh("-c", CODE.format(module=module, heavy=HEAVY)))
    clock, cpu = ({m: min(run[k] for run in runs[m]) for m in modules} for k in (0, 1))

    made = measure.table(
        "Import in a fresh interpreter",
        "",
        *modules,
        "fedcover / numpy",
        caption=f"Best of {repeats}.",
    )
    for what, taken in (("clock", clock), ("CPU time", cpu)):
        ratio = f"{taken['fedcover'] / taken['numpy']:.2f}×"
        made.add_row(what, *(measure.seconds(taken[m]) for m in modules), ratio)
    yield made

    loaded = runs["fedcover"][0][2]
    made = measure.table(
        "Imported along with fedcover?", "package", "installed", "imported", caption=""
    )
    for name in HEAVY:
        here = find_spec(name.split(".")[0]) is not None
        made.add_row(name, "yes" if here else "no", "yes" if name in loaded else "no")
    yield made
