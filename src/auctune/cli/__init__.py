"""The `auctune` command: thin commands over the library."""
