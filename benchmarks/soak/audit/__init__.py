"""Whether what is on record is what was said, and what may be: each check names what is wrong."""
