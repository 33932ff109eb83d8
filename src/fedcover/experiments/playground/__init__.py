"""A page in which one moves α, ε and the sizes of a federation, and sees what would come out.

curves.py        how the shipped outputs score: misses and set sizes at every edge of the bins
forecast.py      the formulas, from the package's own parts
page.py          the page, with the same formulas in its script
"""
