"""The market as a service that people and programs use."""
