from __future__ import annotations

import asyncio
import math

import pytest

from turngym.envs import ToolEnv, assistant, questions, user
from turngym.envs.episode import EpisodeView
from turngym.envs.errors import ContractError, GradingError, InfrastructureError, InvalidReward
from turngym.envs.rewards import Reward
from turngym.envs.scorer import Scorer, scored


class Length:
    """The number of characters of the last message; remembers how many came at once."""

    def __init__(self, broken=None):
        self.sizes = []
        self.broken = broken

    async def score(self, conversations):
        self.sizes.append(len(conversations))
        await asyncio.sleep(0)
        if isinstance(self.broken, Exception):
            raise self.broken
        if self.broken is not None:
            return self.broken
        return [len(conversation[-1].text) for conversation in conversations]


def view(text):
    return EpisodeView((user("?"), assistant(text)), (), 1, (), text)


def together(function, texts):
    async def main():
        return await asyncio.gather(*(function(view(text)) for text in texts), return_exceptions=True)

    return asyncio.run(main())


def test_a_model_is_a_scorer():
    assert isinstance(Length(), Scorer)


def test_episodes_that_end_together_are_scored_together():
    model = Length()
    texts = ["x" * n for n in range(150)]
    assert together(scored(model, range=(0, 200), batch=64), texts) == list(range(150))
    assert model.sizes == [64, 64, 22]


def test_each_event_loop_has_batches_of_its_own():
    model = Length()
    function = scored(model, range=(0, 9))
    for _ in range(3):
        assert together(function, ["a", "bb"]) == [1.0, 2.0]
    assert model.sizes == [2, 2, 2]


@pytest.mark.parametrize(
    "broken",
    [[math.nan], [math.inf], ["7"], [None], [], [1.0, 2.0], ValueError("no"), InfrastructureError("down")],
)
def test_what_is_no_score_is_a_failure_of_each(broken):
    env = ToolEnv(tasks=questions(train={"?": "x"}), rewards=[scored(Length(broken), range=(0, 9))])
    env.reset(seed=0)
    with pytest.raises(InfrastructureError):
        env.step("x")


def test_all_of_a_batch_share_its_failure():
    errors = together(scored(Length([1.0]), range=(0, 9)), ["a", "b"])
    assert [type(error) for error in errors] == [GradingError, GradingError]
    assert "gave 1 values for 2 conversations" in str(errors[0])


def test_one_that_is_cancelled_takes_no_other_with_it():
    async def main():
        function = scored(Length(), range=(0, 9), wait_s=0.05)
        first = asyncio.create_task(function(view("a")))
        second = asyncio.create_task(function(view("bb")))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.gather(first, second, return_exceptions=True)

    cancelled, value = asyncio.run(main())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert value == 2.0


def test_outside_of_the_range_is_an_error_or_clipped_as_was_said():
    def paid(**options):
        env = ToolEnv(
            tasks=questions(train={"?": "x"}), rewards=[scored(Length(), range=(0, 3), weight=2.0, **options)]
        )
        env.reset(seed=0)
        return env.step("x" * 7)[1]

    with pytest.raises(InvalidReward, match=r"'scorer' of ToolEnv returned 7.0, not finite in \[0, 3\]"):
        paid()
    assert paid(outside="clip") == 6.0


def test_declarations_make_sense():
    for bounds in ((0, math.inf), (math.nan, 1), (1, 0)):
        with pytest.raises(ContractError, match="two finite bounds"):
            scored(Length(), range=bounds)
    with pytest.raises(ContractError, match="outside is 'error' or 'clip'"):
        scored(Length(), range=(0, 1), outside="ignore")


def test_it_is_an_ordinary_reward():
    one = Reward.of(scored(Length(), range=(-1, 1), weight=0.5, name="helpful"))
    assert (one.name, one.weight, one.range, one.is_async) == ("helpful", 0.5, (-1, 1), True)
