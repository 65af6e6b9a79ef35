"""Files: written whole or not at all, checked against schemas, with errors that say where.

Each module is one format or one way to read or write. None imports more than the domain.
"""
