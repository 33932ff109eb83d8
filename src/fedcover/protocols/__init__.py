"""Calibration methods as protocols: what a server asks and what a site answers."""
