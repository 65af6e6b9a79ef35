"""Renting by deadline, simulated: markets from files or made up, jobs and pools from files."""
