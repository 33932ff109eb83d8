"""Files: read strictly, written whole or not at all.

archives.py  .npz files: shapes before memory
cells.py     texts as cells of csv files that no spreadsheet runs
facts.py     the one codec: plain facts as JSON, and dataclasses
files.py     a model's outputs
reading.py   plain files, no longer than they may be
tables.py    which columns of a table are classes
writing.py   the one writer
"""
