"""Who may do what: keys, roles, limits and budgets."""
