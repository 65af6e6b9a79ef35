"""A run's instances on a Ray cluster, for its coordinator; see `auctune.run.instances`."""
