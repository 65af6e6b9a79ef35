"""What the figures of the edge share: trials by setting, seed and mechanism, options, output."""
