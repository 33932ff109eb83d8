"""fedcover on Flower: its simulation runtime, and real deployments.

    apps.py         the ClientApp of a site and the ServerApp
    transport.py    envelopes over Flower's message API
    simulation.py   the engine for studies with many virtual sites
    settings.py     settings as the fields of a dataclass
    run_config.py   a run from Flower's run configuration: who, what, how long
    site_config.py  a site from its node's own configuration
    scaffold.py     what `fedcover flower init` writes, from the texts in app/
    doctor/         what `fedcover flower doctor` looks at

Imported only where it is used: Flower is an extra, `pip install 'fedcover[flower]'`.
"""
