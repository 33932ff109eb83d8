"""The paper's experiments, reproduced and surpassed (`fedcover reproduce`), and the demo.

- `study`: what an experiment is: its settings, and rows of one repetition
- `runner`: repetitions over cores or Ray, resumable, the same for any number of workers
- `records`: results as a parquet table with settings, versions and seeds
- `sections`: sections and pages of the report, and what the paper's figures show, read by eye, with
  our results beside it
- `federations`: the paper's federations, drawn anew for every repetition
- `algorithm1`: Algorithm 1 as published, compiled, and the ε that its noise really has
- `compare`: coverage of many methods on one draw
- `simulated`, `cifar10`, `imagenet`, `shift`, `privacy`, `theory`: one experiment each: its
  repetition, its figures, its agreement with the paper
- `theory_measures`: what the last of them measures
- `demo`: the experiment of `fedcover demo`, a package
- `playground`: a page in which one moves the numbers of a federation, a package
- `catalogue`: the experiments by name

A new experiment is a frozen class with the members of `study.Study`, in a module of its own, and a
line below and in `catalogue`.
"""

PAPER = ("simulated", "cifar10", "imagenet", "shift", "privacy", "theory")
"""The paper's experiments, in the order of the report."""

NAMES = (*PAPER, "demo")
