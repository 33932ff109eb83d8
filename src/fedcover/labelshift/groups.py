"""Groups of sites with similar label mixes (the remark after Algorithm 1).

A small site's label distribution is poorly known, and R (eq. 9) shrinks only like 1/√M*. Sites
that resemble each other can share one target: their counts add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.site import Site, checked_federation


def group_sites(sites: Sequence[Site], groups: int) -> dict[str, list[str]]:
    """Put sites into at most `groups` clusters by total-variation distance of their label mixes.

    Returns group name -> names of its sites, ready as ``fc.calibrate(sites, targets=...)``. The
    clustering is agglomerative with average linkage; a group is named after its largest site.
    """
    sites = checked_federation(sites)
    if not 1 <= checks.whole(groups, "groups", 1) <= len(sites):
        raise FedcoverError(
            f"groups is {groups} for {len(sites)} sites",
            allowed=f"a whole number from 1 to {len(sites)}",
            fix="Ask for fewer groups",
        )
    if groups == len(sites):
        return {f"like {s.name}": [s.name] for s in sites}
    from scipy.cluster.hierarchy import fcluster, linkage

    mixes = np.array([s.label_counts / s.label_counts.sum() for s in sites])
    tree = linkage(mixes, method="average", metric="cityblock")
    member = fcluster(tree, t=groups, criterion="maxclust")
    out: dict[str, list[str]] = {}
    for g in np.unique(member):
        inside = [s for s, m in zip(sites, member, strict=True) if m == g]
        largest = max(inside, key=lambda s: int(s.label_counts.sum()))
        out[f"like {largest.name}"] = [s.name for s in inside]
    return out
