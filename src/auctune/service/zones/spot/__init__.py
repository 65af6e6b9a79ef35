"""Zones of kind `spot`: jobs on rented instances that come and go, charged by the slot."""
