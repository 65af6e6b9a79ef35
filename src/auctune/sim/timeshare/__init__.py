"""Time sharing over recorded curves: files, bundles and comparisons."""
