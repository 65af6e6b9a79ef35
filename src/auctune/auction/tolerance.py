"""How equal is equal, for all of the auction.

Work and capacity are sums of float64: they are compared with a relative slack `FIT`, so that ten
tenths fill a node. Two schedules whose costs differ by no more than `TIE` of their size differ by
rounding only; they tie, and the tie order decides. Without that, the order in which energy costs
happen to be added would choose between schedules that cost the same.
"""

FIT = 1e-9
TIE = 1e-12
