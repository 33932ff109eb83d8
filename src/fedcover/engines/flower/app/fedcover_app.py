"""What Flower sends to the sites and starts there: two names. The code is in the package."""

from fedcover.engines.flower.apps import client_app, server_app

client = client_app()
server = server_app()
