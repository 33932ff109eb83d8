"""The pages of the gallery: `python -m tests.gallery` runs their code and keeps the figures.

A page saves its figure as gallery-NAME.png and shows the one in docs/images. tests/test_docs.py
runs every page and compares the two, so that no figure outlives the code that drew it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
PAGES = sorted(p for p in (ROOT / "docs/gallery").glob("*.md") if p.stem != "index")
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def figure_of(page: Path) -> str:
    """The name of the figure of a page, in its own folder and in docs/images."""
    return f"gallery-{page.stem}.png"


def alike(one: Path, two: Path) -> bool:
    """Whether two figures show the same.

    Half of the repetitions, or a law that is off by 2 %, moves the mean of a figure by .003 and
    more. Another release of matplotlib may set its letters differently, and gets more room.
    """
    from PIL import Image

    with Image.open(one) as first, Image.open(two) as second:
        apart = np.abs(np.subtract(first, second, dtype=float)).mean() / 255
        drawn_by_one = first.info.get("Software") == second.info.get("Software")
    return bool(apart < (0.002 if drawn_by_one else 0.02))


def draw() -> None:
    """Run every page, or those named, in a folder that is thrown away."""
    wanted = sys.argv[1:]
    for page in PAGES:
        if wanted and page.stem not in wanted:
            continue
        print(page.stem)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            scope: dict[str, object] = {}
            for code in CODE.findall(page.read_text(encoding="utf-8")):
                exec(compile(code, page.name, "exec"), scope)
            shutil.copy(figure_of(page), IMAGES)
            os.chdir(ROOT)


if __name__ == "__main__":
    draw()
