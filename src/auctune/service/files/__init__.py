"""Files that users brought, and that came out of jobs."""
