"""Webhooks: a user's own address is told when a job is over."""
