"""A pool that threads join and leave while it runs, each with a loss to reach by a deadline.

A bundle (auctune.run.timeshare) is fixed before its first unit. Here the threads that share a unit
are those that are wanted as it begins. Between two changes of them a pool is a bundle, and runs as
one: what is on record of these threads, read as the journal of a bundle, is what their allocator
has seen. So a pool that goes on after a kill, and one that was never killed, do the same.
"""
