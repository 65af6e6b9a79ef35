"""Jobs of the edge: adapters of language models, trained on rows that lie at sites.

Sites are on this machine, or are nodes of a Ray cluster (`sites`). In a slot a job has a parameter
server and workers where its plan says (`job_workers`, `slot_run`); the store of each site reads its
rows (`storage`). At the end of the slot its state is saved.

`site_trainer` trains slots; it has two callers. `auctune.standalone.edge` is `auctune edge run`,
whose slots last as long as their work. `worker` is the process of the sites of a service's zone,
where slots go by the clock.
"""
