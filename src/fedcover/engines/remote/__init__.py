"""Sites on other machines, whatever carries the bytes: Flower does, and tests do without it.

envelope.py        what travels, as bytes: a header of facts and at most one message
codes.py           what a site may say when it refuses, and nothing more
result_message.py  what was published: made at the server, read at the sites
publication.py     the coordinator's signature of it

a site
policy.py          what it accepts, from its own configuration
belief.py          what it believes of the last message, by its ledger and what it agreed to
own_records.py     what its own records contradict; nobody is told
client.py          takes an envelope, gives an envelope
secure_rounds.py   its part in secure sums, and a guard over what its noisy numbers enter
client_state.py    what it remembers between two envelopes, on its own disk

the server
coordinator.py     the engine: hello, the rounds of a method, open or as secure sums, finish
transport.py       envelopes out and replies in, with resends
handshake.py       what sites say of themselves, checked
heads.py           the heads of the sites' ledgers, kept from run to run
checkpoint.py      the rounds that are done, so that a run can go on
"""
