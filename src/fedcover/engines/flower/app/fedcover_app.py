"""What Flower sends to the sites and starts there: two names. The code is in the package."""

from fedcover.engines.flower.client_app import client_app
from fedcover.engines.flower.server_app import server_app

client = client_app()
server = server_app()
