"""Charts of the page, rendered by a process of their own."""
