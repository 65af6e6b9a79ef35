"""Markets to simulate: who bids when, for what, on which nodes, at what price of electricity."""
