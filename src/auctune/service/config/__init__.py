"""auctune.toml: its models, its checks, and the template that `auctune init` writes."""
