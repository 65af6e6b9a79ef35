"""Worker processes that are started by `auctune.engine.runtime`: node, data and sampling worker."""
