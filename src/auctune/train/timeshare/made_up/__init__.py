"""Data that needs no download: digits of scikit-learn, and data made up from a seed."""
