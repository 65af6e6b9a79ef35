"""Data sets of jobs: inspection, offers of vendors, and repair."""
