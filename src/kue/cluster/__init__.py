"""Clusters: how the nodes of an event bus find and reach each other."""
