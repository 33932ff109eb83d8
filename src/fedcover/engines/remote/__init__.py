"""Sites on other machines, whatever carries the bytes: Flower does, and tests do without it.

letters.py     what travels, as bytes: a head in JSON and a message
codes.py       what a site may say when it refuses, and nothing more

a site
rules.py       what it accepts, from its own configuration
node.py        takes a letter, gives a letter
summing.py     its part in secure sums, and a guard over what its noisy numbers enter
memory.py      what it remembers between two letters, on its own disk
published.py   what it makes of the result

the server
post.py        letters out and replies in, with resends
greeting.py    what sites say of themselves, checked
conductor.py   takes a method through its rounds
totals.py      a round as a sum, secure or not
checkpoint.py  the rounds that are done, so that a run can go on
"""
