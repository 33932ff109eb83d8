"""Every figure of the package, from plain arrays and names to a matplotlib Figure.

- `style`: colours and fonts, panels and legends, and figures to inline SVG, .svg and .png
- `charts`: histograms, violins, curves and points, for the experiments; coverage, set sizes, scores
  and label mixes, by site
- `results`: the thresholds of one calibration, and the sizes of some sets
- `sketch`: a sketch's table, the coverage it gives, and a site's thresholds from it

matplotlib is imported here only.
"""
