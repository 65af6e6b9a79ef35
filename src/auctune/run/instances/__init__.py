"""Instances of a run on a Ray cluster, as far as Ray is concerned: nothing here imports torch.

    coordinator ── bridge process (Ray's driver) ── actor on a Ray node
         └──────────── stream ─────────────── worker process beside the actor

Ray places instances and says when one is lost with its machine. What is trained goes over a stream
of its own between worker and coordinator (auctune.run.spot.cluster): Ray sees no gradient.
"""
