"""Admitted jobs of the edge, trained for real on Ray.

A site is a Ray node, or a set of them, with the site's resources. In a slot a job has a parameter
server and workers where its plan says; chunks come out of their sites' object stores. At the end of
the slot its state is saved. Slots last as long as the work in them.
"""
