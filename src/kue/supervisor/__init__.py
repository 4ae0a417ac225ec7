"""
The supervisor: the process that ``kue worker`` is, and the children that run jobs.

It imports no code of its users and never waits for anything but events, so that it can
beat for a child whose interpreter is held by a handler.
"""
