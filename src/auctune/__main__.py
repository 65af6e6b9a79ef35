"""`python -m auctune`: the same as the `auctune` command."""

from auctune.cli.app import main

main()
