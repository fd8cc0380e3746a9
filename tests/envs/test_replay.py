import copy

import pytest

from turngym.envs.errors import InfrastructureError
from turngym.envs.replay import Replay


class Adder:
    def __init__(self):
        self.total = 0
        self.closed = False


class House:
    def __init__(self, drift=0):
        self.made = []
        self.drift = drift

    async def start(self):
        self.made.append(Adder())
        self.made[-1].total = self.drift * (len(self.made) - 1)
        return self.made[-1]

    async def say(self, live, number):
        if number == "fail":
            raise OSError("gone")
        live.total += number
        return live.total

    async def stop(self, live):
        assert not live.closed
        live.closed = True

    def replay(self):
        return Replay(self.start, self.say, self.stop)


async def test_a_copy_repeats_and_goes_its_own_way():
    house = House()
    first = house.replay()
    assert house.made == []
    assert [await first.send(n) for n in (1, 2)] == [1, 3]
    twin = copy.deepcopy(first)
    assert len(house.made) == 1
    assert await twin.send(10) == 13
    assert await first.send(5) == 8
    assert (twin.log, first.log) == (((1, 1), (2, 3), (10, 13)), ((1, 1), (2, 3), (5, 8)))
    await first.aclose()
    await first.aclose()
    assert [one.closed for one in house.made] == [True, False]
    assert await first.send(1) == 9  # opened again, and told everything
    assert len(house.made) == 3


async def test_a_replay_that_differs_is_a_failure_and_leaves_nothing_open():
    house = House(drift=1)
    first = house.replay()
    await first.send(1)
    with pytest.raises(InfrastructureError, match="answer 0 was 1, and is 2 now"):
        await copy.deepcopy(first).send(1)
    assert [one.closed for one in house.made] == [False, True]


async def test_a_failure_releases_the_live_one_and_is_not_in_the_log():
    house = House()
    first = house.replay()
    await first.send(1)
    with pytest.raises(OSError, match="gone"):
        await first.send("fail")
    assert house.made[0].closed
    assert first.log == ((1, 1),)
