"""Sites on other machines, whatever carries the bytes: Flower does, and tests do without it.

letters.py     what travels, as bytes: a head in JSON and a message
codes.py       what a site may say when it refuses, and nothing more
rules.py       what a site accepts, from its own configuration
node.py        a site: takes a letter, gives a letter
memory.py      what a site remembers between two letters, on its own disk
conductor.py   the server: takes a method through its rounds, with resends and checkpoints
checkpoint.py  the rounds that are done, so that a run can go on
"""
