"""Nodes of the market on a Ray cluster.

    executor ── bridge process (Ray's driver) ── actor on a Ray node ── node process

Only the bridge and the actors import Ray. All that is said is numbered, so that what comes twice
counts once; and a node process trains by a lease that its market renews, so that none goes on
whose market is gone, and the market knows by when it has ended.
"""
