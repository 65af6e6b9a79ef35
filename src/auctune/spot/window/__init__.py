"""The window program: the best allocation over some slots whose prices and counts are known."""
