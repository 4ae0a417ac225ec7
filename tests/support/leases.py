"""
Leases of workers in tests.

On a busy machine a process may wait seconds for a core; that must cost it no job.
"""

from __future__ import annotations

#: Of a worker that is to lose its jobs: it is killed or frozen early in its lease.
SHORT_LEASE_SECONDS = 3.0
#: Of every other one.  The grace after a gap in maintenance is half of it.
PATIENT_LEASE_SECONDS = 10.0
