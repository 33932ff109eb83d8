"""What watches the watchers: the package broken on purpose, one place at a time.

`catalogue` has the mutants: a patch, what it breaks, and who should notice, the audit or tests.
`python -m tests.mutants` applies each to a copy of the source, asks those who should notice, and
writes docs/mutants.md. tests/test_mutants.py keeps the list from ageing.
"""
