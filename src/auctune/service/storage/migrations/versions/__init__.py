"""One revision a module."""
