"""A pool: one device on which preemptible training jobs share time, each to a loss by a deadline.

At the beginning of a quantum an allocator sees the progress of all jobs and gives out shares; each
job trains its share as a number of whole batches; at the quantum's end the mean loss of these is
what the allocator learns (Wang et al., ICML 2024, section 2.1). auctune.timeshare.play does the
same over recorded curves: on the curves of its own jobs it comes to the same end.

The jobs of a bundle (`auctune timeshare run`) never change. A service's pool is open: jobs join and
leave while it runs. While membership is unchanged, an open pool is a bundle; on every change it
starts an epoch, whose allocator is rebuilt by replaying the log of the current members. So a pool
that was restarted does the same as one that never stopped.

A pool decides in the process that records its events; the jobs are on its device, which handles the
requests of `device`: in the worker of a node, or in the process of a bundle's run.
"""
