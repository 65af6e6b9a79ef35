"""Training threads that take turns on one device: adapters, stand-ins, data sets, recordings."""
