"""Numerical tools that know nothing of markets."""
