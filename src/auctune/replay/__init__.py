"""Replay of a zone's log: verify its decisions, or compare other mechanisms on the same jobs."""
