"""
The supervisor: the parent process of ``kue worker``, and the children that run jobs.

It imports no code of its users and never waits for anything but events, so that it can
renew the lease of a child whose interpreter is held by a handler.
"""
