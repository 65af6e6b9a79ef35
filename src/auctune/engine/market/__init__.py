"""From a market file to a cluster and tasks: what is offered, on what, and what must be done."""
