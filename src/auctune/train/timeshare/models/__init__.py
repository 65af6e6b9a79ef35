"""Small networks of the kinds that the paper's bundles train (Wang et al., ICML 2024, App. B.1)."""
