"""Reports: figures from plain arrays, and one self-contained HTML page that holds them.

- `estimate`: a number averaged over repetitions, with its confidence interval and its spread
- `style`: colours, fonts, and figures to inline SVG, .svg and .png
- `figures`: arrays in, matplotlib figures out
- `page`: title, lead and sections in, one HTML file out

matplotlib and jinja2 are imported by the last three only.
"""
