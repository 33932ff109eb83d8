"""Sites on other machines, whatever carries the bytes: Flower does, and tests do without it.

envelope.py        what travels, as bytes: a header in JSON and a message
codes.py           what a site may say when it refuses, and nothing more

a site
policy.py          what it accepts, from its own configuration
client.py          takes an envelope, gives an envelope
client_state.py    what it remembers between two envelopes, on its own disk
secure_rounds.py   its part in secure sums, and a guard over what its noisy numbers enter
result_message.py  what is published, and what a site makes of it

the server
coordinator.py     the engine whose sites are elsewhere: takes a method through its rounds
transport.py       envelopes out and replies in, with resends
handshake.py       what sites say of themselves, checked
checkpoint.py      the rounds that are done, so that a run can go on
"""
