"""Side-by-side measurements of fedcover: ``python -m benchmarks`` from the root of the repository.

One thread each: the variables below must be set before NumPy loads; child processes inherit them.
"""

import os

for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
):
    os.environ[_variable] = "1"
