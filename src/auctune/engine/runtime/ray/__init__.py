"""Nodes of a market on a Ray cluster.

    executor ── agent process (Ray's driver) ── actor on a Ray node ── worker process

One agent serves all zones of a process. Only the agent and the actors import Ray. Calls of an actor
by one caller arrive once and in order, so that messages need no numbers of their own. A worker that
was cut off from its market may train on for a while, but can no longer save once another one has
begun its slot (`auctune.train.attempts`).
"""
