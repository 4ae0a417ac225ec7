"""
Kue beside other job queues on Redis, in one run on one machine.

``python -m benchmarks.peers run`` measures; docs/benchmarks.md says how, and has the
table.  What runs inside the environment of a peer is in `adapters`, and imports nothing
that a peer's environment does not have.
"""
