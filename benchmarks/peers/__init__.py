"""
Comparison of Kue with other job queues on Redis, in one run on one machine.

``python -m benchmarks.peers run`` measures; docs/benchmarks.md explains how, and has
the results.  Code that runs in the environment of a peer is in `adapters`, and imports
only what that environment has.
"""
