"""Shared by command groups: options, tables, output files, errors, lazy loading."""
