"""Elastic training: any number of workers anywhere compute gradients, which one worker reduces.

| module | what it does |
| --- | --- |
| `gradient_worker` | worker: gradients of micro-batches at given weights; files of the adapter |
| `reducer` | worker: adds gradients in their order, and takes the optimizer's steps |
| `trainer` | a job whose rows are in a file: hands out micro-batches, has them reduced |

A micro-batch is the virtual shard: who computes it changes no bit of the weights
(`auctune.train.data_parallel`). The edge has chunks of rows at sites instead of a file, and trains
them slot by slot (`auctune.engine.edge.slot_run`).
"""
