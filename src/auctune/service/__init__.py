"""The market as a service: durable, over HTTP, with the trainer behind."""
