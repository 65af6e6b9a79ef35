"""Webhooks: signed HTTP notifications to addresses that users register, sent when a job ends."""
