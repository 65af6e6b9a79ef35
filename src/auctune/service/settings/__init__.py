"""auctune.toml: what the service is to be."""
