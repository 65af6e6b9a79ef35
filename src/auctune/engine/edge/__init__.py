"""Jobs of the edge, trained on Ray: adapters of language models, on rows that lie at sites.

A site is a Ray node, or a set of them, with the site's resources. In a slot a job has a parameter
server and workers where its plan says; its rows are in the object stores of their sites. At the end
of the slot its state is saved.

`site_trainer` trains slots; it has two callers. `driver` is `auctune edge run`: it decides on the
bids of an instance, and its slots last as long as their work. `worker` is the process of the sites
of a zone: the service decides, and slots go by the clock.
"""
