"""Reports: figures from plain arrays, and one self-contained HTML page that holds them.

- `figures`: the figures, a package; nothing else imports matplotlib
- `plots`: what results draw of themselves, `calibration.plot()` and its like
- `page`: title, lead and sections in, one HTML file out
- `sketch`: the page of a collected sketch
- `personal`: the page of a site's own calibration from a sketch
- `evaluation`: the page of a calibration on labelled records
- `own_records`: coverage of a site's own records, for both
- `score_axis`: an axis even in the bins of a sketch, and scores in words
- `estimate`: a number averaged over repetitions, with its confidence interval and its spread
"""
