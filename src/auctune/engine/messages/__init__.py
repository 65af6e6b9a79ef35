"""Messages between a process and its workers: a module for each kind of worker.

A message is a frozen dataclass whose `type` tells it from the others of its union. A reply either
completes a request (`Response`), or reports that the worker is ready (`Ready`), or is progress. A
module ends with the unions of its requests and replies, and their `WorkerMessages`, by which the
two ends of a channel read them (`auctune.engine.runtime.channel`).
"""
