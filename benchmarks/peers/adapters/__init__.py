"""
Adapters for each job queue, run by the interpreter of its environment.

``python -m benchmarks.peers.adapters NAME VERB …`` drives ``through_NAME``, a module
with a ``work`` function and a ``producer`` function.  The Node and Ruby files take the
same arguments.
"""
