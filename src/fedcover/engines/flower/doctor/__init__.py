"""`fedcover flower doctor`: looks at a set-up before anything is sent, and says what to do.

examination.py   all looks in order, and versions
findings.py      what was looked at, whether it is good, and what to do if not
certificates.py  TLS: dates, names, who signed, which key
site.py          a site: its data, key, roster, ledger and folders
doors.py         who gets in at the SuperLink, tried over the network
app.py           a run: its settings, whether a site would accept it, and what it would cost its
                 ledger, played through with made-up records

Nothing here changes a file, or shows a key or a record. Only doors.py opens connections.
"""
