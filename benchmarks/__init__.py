"""
How fast Kue is, beside the barest code that does the same work and beside a peer.

``python -m benchmarks`` measures; docs/benchmarks.md says how to read what it prints.
"""
