"""Commands that run one zone without a service: one process, a folder, and a logical clock."""
