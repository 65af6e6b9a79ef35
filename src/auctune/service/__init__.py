"""The service: zones that sell training, behind an HTTP API, with accounts and storage."""
