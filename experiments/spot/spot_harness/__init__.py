"""What the figures share: markets, jobs, what policies make of them, options, tables and charts."""
