"""fedcover on Flower: its simulation runtime, and real deployments.

    apps.py         the two Flower apps, of the server and of a site
    transport.py    envelopes over Flower's message API
    run_config.py   a run from Flower's run configuration: who, what, how long
    site_config.py  a site from its node's own configuration
    settings.py     what both configurations share: settings as fields of a dataclass
    simulation.py   the engine for studies with many virtual sites
    approval.py     apps that a site lets run, by the hash of their bundle
    executor.py     starts those at a site, and no others
    scaffold.py     the folder that `fedcover flower init` writes, from app/
    doctor/         `fedcover flower doctor`

Imported only where it is used: Flower is an extra, `pip install 'fedcover[flower]'`.
"""
