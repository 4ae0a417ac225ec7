"""
For tests of programs that use Kue; needs no plugin of a test framework.

* `fake` records the jobs that a program adds, and has assertions about them.
* `run_all` runs what is due, and raises what jobs raise.
* `Clock` is a clock that tests set: ``kue.Kue("memory://", clock=clock)``.
"""

from kue.testing.added_job import AddedJob
from kue.testing.added_jobs import AddedBatch, AddedJobs
from kue.testing.clock import Clock
from kue.testing.fake import fake
from kue.testing.run_all import run_all

__all__ = ["AddedBatch", "AddedJob", "AddedJobs", "Clock", "fake", "run_all"]
