"""Hostile files and messages, made from valid ones: for tests, and for hours of them.

mutations.py   facts, arrays, messages and bytes, changed as somebody would who knows the form
archives.py    .npz files whose headers lie
files.py       every file that is read: a valid one, its changes under a right checksum, its reader
messages.py    envelopes at a site and at the server, and secure sums at both ends
running.py     cases one after the other, with what they raised and the memory they took

    python -m tests.fuzz --minutes 60
"""
