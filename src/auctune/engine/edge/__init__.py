"""Jobs of the edge: adapters of language models, trained on rows that lie at sites.

Sites are on this machine, or are nodes of a Ray cluster (`sites`). In a slot a job has a parameter
server and workers where its plan says (`job_workers`, `slot_run`); the store of each site reads its
rows (`storage`). At the end of the slot its state is saved.

`site_trainer` trains slots; it has two callers. `driver` is `auctune edge run`: it decides on the
bids of an instance, and its slots last as long as their work. `worker` is the process of the sites
of a zone: the service decides, and slots go by the clock.
"""
