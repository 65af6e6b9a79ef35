"""Data-parallel training of an adapter whose weights do not depend on who computed what.

A global batch is cut into micro-batches, whose order follows from the job alone. Any worker may
compute any of them:

    g_j = sum over rows of micro-batch j, over trained tokens n of a row, of  grad l_n

One process adds them in the order of j, whatever the order they arrive in, and takes the step:

    g = (((g_0 + g_1) + g_2) + ...) / T,    T trained tokens of the whole batch

Sums of floats depend on their order and on nothing else here, so the weights are bit-identical for
any number of workers at any place, and for workers that crash. A mean of workers' means would
weight tokens by how the rows were shared out.

| module | who uses it |
| --- | --- |
| `batches` | which rows make a micro-batch; needs no torch |
| `gradient_worker` | workers: the gradient of a micro-batch of a file or of a chunk |
| `reducer` | who adds gradients: of a file's rows in the order of the job's epochs, of chunks at \
sites in the order of the plan's slots |
"""
