"""What several command groups use: options, tables, output files, errors, lazy loading."""
