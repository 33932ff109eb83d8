"""`python -m fedcover` is the command line."""

from fedcover.cli import main

main()
