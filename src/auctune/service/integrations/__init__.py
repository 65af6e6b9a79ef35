"""Integrations of jobs with services of others: runs of Weights & Biases."""
