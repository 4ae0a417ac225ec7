"""
Benchmarks of Kue, compared with minimal code that does the same work, and with a peer.

``python -m benchmarks`` measures; docs/benchmarks.md explains the output.
"""
