"""
Chaos: Kue under every fault that one machine can produce, and an account of it.

``python -m chaos --engine redis --seconds 60 --seeds 1..5``.  What is done and what is
checked stands in docs/explanation/chaos.md.

=============  ===================================================================
`plan`         what will be done, as values drawn from a seed
`app`          the queue and its handlers; runs in the worker processes
`worker`       a worker process; `producer`, `operator` and `lock` are the others
`run`          one seed from start to figures
`fleet`        starts worker processes, hurts them, replaces the dead
`clients`      starts producers and operator
`stage`        the store, and what can be done to it: `redis_stage`, `sqlite_stage`
`injector`     makes the planned faults happen to fleet and stage
`probe`        finds workers that live and do not work
`history`      what happened, as values: `facts` of `journal` and `sink`
`delivery`     what must be true of a history; so say `stories`, `orders`, `news`
`recovery`     how soon the jobs of dead workers ran again
`figures`      all checks together, and the line of JSON
`command`      the command line
=============  ===================================================================
"""
