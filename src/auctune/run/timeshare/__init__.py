"""Training threads that share one device, for real: a unit of time at a time, to loss targets.

At the beginning of a unit an allocator sees how far all threads are and gives out shares; each
thread trains its share as a number of whole batches; at the unit's end the mean loss of these is
what is known of it (Wang et al., ICML 2024, section 2.1). auctune.timeshare.play does the same over
recorded curves: on the curves of its own threads it comes to the same end.
"""
