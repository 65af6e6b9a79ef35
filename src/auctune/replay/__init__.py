"""What `auctune replay` does for each kind of zone."""
