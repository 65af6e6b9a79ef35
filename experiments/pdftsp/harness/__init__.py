"""What the figures share: markets by setting and seed, jobs over cores, intervals, output."""
