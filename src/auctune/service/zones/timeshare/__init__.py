"""Zones of kind `timeshare`: jobs share one pool, each to reach a loss by its deadline.

Nothing is promised. A job is charged for the seconds in which the pool trained it, up to its cap.
"""
