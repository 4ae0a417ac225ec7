"""Type checkers see what a flow returns, and the arguments of links without results."""

from __future__ import annotations

from typing import assert_type

import kue
from kue import BatchHandle, BatchProgress, FlowHandle, Signature, SyncFlowHandle
from tests.typing.tasks import count, report, send


async def a_chain_returns_what_its_last_link_does() -> None:
    flow = report.s(7) | count.s(twice=True)
    assert_type(await flow.enqueue(), FlowHandle[int])
    assert_type(await (await flow.enqueue()).result(), int)
    assert_type(await kue.chain(count.s([]), report.s(), send.s()).enqueue(), Sent)
    assert_type(flow.delay(), SyncFlowHandle[int])


Sent = FlowHandle[dict[str, int]]


async def a_group_returns_a_list() -> None:
    assert_type(await kue.group(report.s(1), report.s(2)).enqueue(), Pages)
    flow = kue.group(report.s(n) for n in range(9)) | count.s()
    assert_type(await (await flow.enqueue()).result(), int)


Pages = FlowHandle[list[str]]


async def a_link_that_takes_no_result_is_called_as_its_function() -> None:
    assert_type(send.si("a@b.c", title="hi"), Signature[dict[str, int]])
    flow = (send.s("a@b.c") | count.si(["a"])).catch(report.s())
    await flow.enqueue(on_parent_failure="cancel")


async def a_batch_has_progress(q: kue.Kue) -> None:
    batch = kue.batch("import", allow_failures=True).then(count.s()).catch(report.s())
    batch.finally_(report.si(7))
    handle = await batch.enqueue(
        [report.s(1), count.draft(["a"]), send.s("a@b.c") | count.s()]
    )
    assert_type(handle, BatchHandle)
    assert_type(await handle.progress(), BatchProgress)
    assert_type(await q.batch(handle.id).add([report.s(2)]), list[int])
    assert_type(q.sync.batch(7).progress(), BatchProgress)
