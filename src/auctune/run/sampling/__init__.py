"""Trying out an adapter: text from a process that lives as long as the answer."""

from auctune.run.sampling.sampler import SampleError, SampleOrder, sample
from auctune.train.job import SampleParams

__all__ = ["SampleError", "SampleOrder", "SampleParams", "sample"]
