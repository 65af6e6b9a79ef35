"""The market as a service: zones on a real clock behind an HTTP API, over a durable event log."""
