"""Training where the data are: weights that do not depend on who computed what, or where.

A job's data are chunks of samples. In a slot it trains some of them, for all its epochs. A chunk is
cut into micro-batches of m samples, and k of them make a global batch:

    g_j = sum over samples n of micro-batch j of  grad l_n
    g   = (((g_0 + g_1) + g_2) + ...) / samples of the batch

Which micro-batches there are, and their order, follows from the seed, the job's recipe and the
chunks of the slot alone. Any worker that holds a chunk may compute its micro-batches; the parameter
server adds what they send in the order of j and takes the step. Sums of floats depend on their
order and on nothing else here, so weights are the same bits for any number of workers at any sites.

Nothing is imported here: a parameter server needs no torch.
"""
