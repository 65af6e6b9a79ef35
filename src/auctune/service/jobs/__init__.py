"""Jobs: what is to be trained, and what becomes of it."""
