"""What the figures share: options, bundles, allocators, fits of curves, tables and charts."""
