"""The label × score sketch: one table, summed over the sites, that serves every target and α."""
