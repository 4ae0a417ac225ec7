"""
Chaos tests: Kue under every fault that one machine can produce, with checks.

``python -m chaos --engine redis --seconds 60 --seeds 1..5``.  The faults and the checks
are described in docs/explanation/chaos.md.

=============  ===================================================================
`plan`         jobs, faults and orders, drawn from a seed
`app`          the queue and its handlers; runs in the worker processes
`worker`       a worker process; `producer`, `operator` and `lock` are the others
`run`          one seed from start to figures; injects the planned faults
`fleet`        starts worker processes, injects their faults, replaces the dead
`clients`      starts producers and operator
`stage`        the store and its faults: `redis_stage`, `sqlite_stage`
`probe`        finds workers that are alive and run no jobs
`history`      what happened, as values: `facts` of `journal` and `sink`
`delivery`     checks of a history; others are in `job_history`, `orders`, `events`
`recovery`     how soon the jobs of dead workers ran again
`figures`      all checks together, and the line of JSON
`command`      the command line
`schedules`    another program: each tick of a schedule fires once, by `ticks`
`flows`        another one: a graph of jobs, drawn by `dag`, with `flow_account`
=============  ===================================================================
"""
