"""Elastic data parallelism: an adapter whose weights do not depend on how many workers there were.

A global batch of B rows is cut into micro-batches of m rows, by the rows' places in the job's
stream alone. Any worker may compute any of them:

    g_j = 1/T * sum over rows of micro-batch j, over trained tokens n of a row, of  grad l_n

with T the trained tokens of the whole batch, so that gradients are weighted by tokens. One trainer
adds them in the order of j, whatever the order they arrive in, and takes the step:

    g = ((g_0 + g_1) + g_2) + ...

Sums of floats depend on their order and on nothing else here, so the weights are the same bits for
any number of workers, and for workers that die. A mean of workers' means would weight tokens by
how the rows were shared out.
"""

from auctune.train.elastic.gradients import GradientMaker
from auctune.train.elastic.part import Contribution, Part
from auctune.train.elastic.trainer import ElasticTrainer

__all__ = ["Contribution", "ElasticTrainer", "GradientMaker", "Part"]
