"""Worker processes that are started by `auctune.run.runtime`: node, data and sampling worker."""
