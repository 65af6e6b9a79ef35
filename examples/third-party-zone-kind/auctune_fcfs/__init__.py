"""First come, first served at a fixed price, as a kind of zone for auctune."""
