"""A client made by openapi-python-client adds, reads and cancels a job."""

from __future__ import annotations

import sys

from kue_client import AuthenticatedClient, Client
from kue_client.api.actions import actions_cancel
from kue_client.api.jobs import jobs_add, jobs_show
from kue_client.models import AddedView, JobDetail, NewJob, Problem

base_url, token = sys.argv[1:]
with AuthenticatedClient(base_url=base_url, token=token) as client:
    body = NewJob.from_dict(
        {"type": "email", "data": {"to": "ann"}, "priority": "high"}
    )
    added = jobs_add.sync(client=client, body=body)
    assert isinstance(added, AddedView), added
    shown = jobs_show.sync(added.id, client=client)
    assert isinstance(shown, JobDetail), shown
    assert (shown.type_, shown.state) == ("email", "waiting")
    # The body of a cancellation is optional: it is left out.
    ended = actions_cancel.sync_detailed(added.id, client=client)
    assert ended.status_code == 200, ended.content
with Client(base_url=base_url) as stranger:
    refused = jobs_show.sync(added.id, client=stranger)
    assert isinstance(refused, Problem), refused
    assert refused.status == 401
print("python: done")
