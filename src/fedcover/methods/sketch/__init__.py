"""The label × score sketch: one table, summed over the sites, that serves every target and α.

method.py        its two halves, and its options

before a run
plan.py          bins, rows and noise from public numbers, with the error that is predicted

a run
client.py        what is asked for, what a site answers, and what that costs it
factor.py        noise that suits sums of bins
table.py         the summed table, measured or exact, and its fixed public bins

afterwards, as often as one likes
curve.py         a target's misses by threshold, read off the table
personalise.py   thresholds of a target for its label mix, with all errors
certify.py       its certificate
result.py        SketchResult, which does all of this
file.py          and is a file
"""
