"""fedcover on Flower: its simulation runtime, and real deployments.

    transport.py     letters over Flower's message API
    site.py        a site from its node's own configuration
    client_app.py  the ClientApp of a site
    run.py         a run from Flower's run configuration: who, what, how long
    server_app.py  the ServerApp
    simulation.py  the engine for studies with many virtual sites

Imported only where it is used: Flower is an extra, `pip install 'fedcover[flower]'`.
"""
