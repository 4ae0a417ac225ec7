"""
How each job queue is fed and put to work; run by the interpreter of its environment.

``python -m benchmarks.peers.adapters NAME VERB …`` drives ``through_NAME``, a module
with a ``work`` function and a ``producer`` function.  The Node and Ruby files beside
them take the same arguments.
"""
