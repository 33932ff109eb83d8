"""Files: read strictly, written whole or not at all.

facts.py     the one codec: plain facts as JSON, and dataclasses
files.py     a model's outputs
tables.py    which columns of a table are classes
writing.py   the one writer
"""
