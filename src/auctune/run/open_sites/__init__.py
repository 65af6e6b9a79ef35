"""Sites that stay open: jobs come and go, and train by the clock in the slots of their plans.

A process of its own speaks to Ray and trains; whoever decides tells it, slot by slot, who trains
what where. The crews, the storage and the checkpoints are those of `auctune.run.edge`.
"""
