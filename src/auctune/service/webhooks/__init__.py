"""Webhooks: signed HTTP notifications of ended jobs and used budgets, to addresses of users."""
