"""auctune: a market for fine-tuning.

Owners bring jobs with a value and a deadline, operators bring compute; the market decides at
once, prices truthfully, plans, trains and accounts.
"""

__version__ = "0.1.0"
