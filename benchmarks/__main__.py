"""Measure and print all tables, or some of them: ``python -m benchmarks [--quick] [name ...]``."""

from __future__ import annotations

import argparse
import importlib
import platform
import time

import numpy as np
from rich.console import Console

import fedcover

PARTS = ("import_time", "dp_fedcp", "aps", "scaling", "noise", "accounting", "sketch", "experiment")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="name", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="smaller problems, under a minute")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {PARTS}")

    console = Console(width=max(100, Console().width))
    console.print(
        f"fedcover {fedcover.__version__}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}; CPU time of one thread. Compare the ratios: seconds depend on the "
        f"machine.{' Quick run: rougher numbers.' if options.quick else ''}\n"
    )
    for name in options.parts or PARTS:
        began = time.perf_counter()
        for table in importlib.import_module(f"benchmarks.{name}").tables(options.quick):
            console.print(table)
            console.print()
        console.print(f"[dim]{name}: {time.perf_counter() - began:.0f} s on the clock[/dim]\n")


if __name__ == "__main__":
    main()
