"""What the host makes of a supervisor that is gone: memory is to blame only for what ended since the request."""

from __future__ import annotations

import socket

import pytest

from turngym.sandboxes.errors import SandboxLost
from turngym.sandboxes.host.channel import EndedForMemory, HostChannel


@pytest.mark.parametrize(("before", "after"), [(0, 0), (3, 3)])
async def test_an_earlier_program_that_ran_out_of_memory_is_not_the_reason(before: int, after: int) -> None:
    ours, theirs = socket.socketpair()
    counts = iter([before, after])
    channel = HostChannel(ours)
    channel.oom_kills = lambda: next(counts)
    await channel.send({"verb": "ping"})
    theirs.close()
    with pytest.raises(SandboxLost) as caught:
        await channel.receive(1)
    assert not isinstance(caught.value, EndedForMemory)


async def test_memory_is_the_reason_if_the_kernel_has_ended_somebody_since_the_request() -> None:
    ours, theirs = socket.socketpair()
    counts = iter([3, 4])
    channel = HostChannel(ours)
    channel.oom_kills = lambda: next(counts)
    await channel.send({"verb": "ping"})
    theirs.close()
    with pytest.raises(EndedForMemory, match="memory_mib"):
        await channel.receive(1)
