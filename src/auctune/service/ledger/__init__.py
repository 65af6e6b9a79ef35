"""Money in double entry: every event's entries sum to zero."""
