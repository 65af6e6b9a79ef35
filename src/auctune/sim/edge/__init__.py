"""Edge markets in simulation: instance and decision files, made-up settings, comparisons."""
