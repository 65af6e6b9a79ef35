"""An elastic fine-tuning job on rented instances that are preempted, slot by slot.

At the start of a slot the coordinator (`coordinator`) reads the market, lets a policy choose an
allocation, pays for the slot, and releases or acquires instances (`provider`). Within the slot,
micro-batches go to the workers that are ready (`worker_pool`); at its end a checkpoint is written.
What remains at the deadline runs on as many on-demand instances as the job can use, billed by the
fraction of a slot (Kong et al., arXiv 2512.20967, section III). `job.train_job` runs all of it.

`traces` and `job_config` import no torch: the service decides with them, and starts a process
(`job_process`) for each job.
"""
