"""Vendors as a zone has them: asked for offers, given orders, and replaced if they fail."""
