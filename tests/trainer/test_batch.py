from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.types import Action, Outcome, Tokens, Trajectory, Turn
from turngym.envs.messages import assistant, user
from turngym.trainer.batch import pack
from turngym.trainer.errors import UnplacedReward

_ids = st.lists(st.integers(0, 9), max_size=4).map(tuple)
_turns = st.lists(
    st.tuples(_ids, _ids, st.sampled_from([0.0, 0.0, 1.0, -0.5, 0.25]), st.booleans()), min_size=1, max_size=5
)


@st.composite
def _episodes(draw):
    turns = []
    for number, (context, action, reward, breaks) in enumerate(draw(_turns)):
        # The first turn sees a prompt and samples something, so that every reward has a home.
        context = (1, *context) if number == 0 else context
        action = action or (3,) if number == 0 else action
        tokens = Tokens(
            context, action, tuple(-0.1 * (k + 1) for k in range(len(action))), new_segment=breaks
        )
        turns.append(Turn(Action(assistant("!"), tokens, policy_version=number), reward=reward))
    kind, cause = draw(
        st.sampled_from(
            [("completed", "terminated"), ("truncated", "turns"), ("truncated", "env"), ("failed", "agent")]
        )
    )
    return Trajectory(
        env_id="turngym/Test-v0",
        task_id="t",
        task_hash="0" * 16,
        seed=0,
        sample=0,
        prompt=(user("?"),),
        tools=(),
        turns=tuple(turns),
        outcome=Outcome(kind, cause),
        final_context_ids=draw(_ids),
        final_new_segment=draw(st.booleans()),
    )


_batches = st.lists(_episodes(), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(_batches)
def test_law_04_the_rewards_of_a_batch_are_those_of_its_trajectories(episodes):
    batch = pack(episodes, [0] * len(episodes))
    for number, episode in enumerate(episodes):
        assert float(batch.rewards[batch.episode == number].sum()) == pytest.approx(episode.reward)
    assert (batch.rewards[~batch.is_action] == 0).all()


@settings(max_examples=100, deadline=None)
@given(_batches)
def test_law_04_a_turn_is_paid_on_its_last_action_token(episodes):
    batch = pack(episodes, [0] * len(episodes))
    for number, episode in enumerate(episodes):
        stream = [
            (int(batch.turn[row, t]), float(batch.rewards[row, t]))
            for row in (batch.episode == number).nonzero().flatten().tolist()
            for t in batch.is_action[row].nonzero().flatten().tolist()
        ]
        last_of_turn = {turn: place for place, (turn, _) in enumerate(stream)}
        expected = [0.0] * len(stream)
        for index, turn in enumerate(episode.turns):
            expected[last_of_turn[max(t for t in last_of_turn if t <= index)]] += turn.reward
        assert [reward for _, reward in stream] == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(_batches)
def test_law_02_each_sampled_token_is_an_action_exactly_once(episodes):
    batch = pack(episodes, [0] * len(episodes))
    for number, episode in enumerate(episodes):
        rows = (batch.episode == number).nonzero().flatten()
        assert batch.segment[rows].tolist() == list(range(len(rows)))
        ids = torch.cat([batch.ids[row][batch.is_action[row]] for row in rows]).tolist()
        logprobs = torch.cat([batch.behaviour_logprobs[row][batch.is_action[row]] for row in rows]).tolist()
        versions = torch.cat([batch.policy_version[row][batch.is_action[row]] for row in rows]).tolist()
        sampled = [turn.action.tokens for turn in episode.turns]
        assert ids == [token for tokens in sampled for token in tokens.action_ids]
        assert logprobs == pytest.approx([p for tokens in sampled for p in tokens.logprobs])
        assert versions == [n for n, tokens in enumerate(sampled) for _ in tokens.action_ids]


@settings(max_examples=50, deadline=None)
@given(_batches)
def test_law_06_only_an_episode_that_was_cut_short_is_bootstrapped(episodes):
    batch = pack(episodes, [0] * len(episodes))
    assert not (batch.terminated & batch.truncated).any()
    for number, episode in enumerate(episodes):
        assert bool(batch.truncated[number]) == (episode.outcome.kind == "truncated")
        if episode.outcome.kind != "truncated":
            assert int(batch.bootstrap_row[number]) == int(batch.bootstrap_position[number]) == -1
            continue
        row, position = int(batch.bootstrap_row[number]), int(batch.bootstrap_position[number])
        seen = [int(i) for segment in episode.segments()[-1:] for i in segment.ids]
        assert int(batch.episode[row]) == number
        assert batch.ids[row, : position + 1].tolist() == seen, (
            "V(final) is read after everything that comes next"
        )


@pytest.mark.parametrize(
    ("finish_reason", "final_context", "follows"),
    [("stop", (7,), 2), ("stop", (), 2), ("length", (7,), 2), ("length", (), 1)],
)
def test_a_value_after_a_whole_turn_belongs_to_the_next_one(
    build_trajectory, finish_reason, final_context, follows
):
    turns = [((1, 2), (3,), 0.0), ((4,), (5, 6), 1.0)]
    facts = {"final_context": final_context, "finish_reason": finish_reason}
    cut = build_trajectory(turns, kind="truncated", **facts)
    ended = build_trajectory(turns, **facts)
    batch = pack([cut, ended], [0, 0])
    assert batch.bootstrap_turn.tolist() == [follows, -1]
    assert batch.turn[0, : 6 + len(final_context)].tolist() == [0, 0, 0, 1, 1, 1] + [2] * len(final_context)


def test_an_episode_that_ends_on_environment_tokens_keeps_its_end_reward(build_trajectory):
    episode = build_trajectory([((1, 2), (3,), 0.0), ((4,), (5, 6), 1.0)], final_context=(7, 8, 9))
    batch = pack([episode], [0])
    assert batch.rewards.tolist() == [[0, 0, 0, 0, 0, 1.0, 0, 0, 0]]


def test_a_turn_that_sampled_nothing_pays_the_last_token_before_it(build_trajectory):
    batch = pack([build_trajectory([((1,), (2, 3), 0.25), ((4,), (), 1.0)])], [0])
    assert batch.rewards.tolist() == [[0, 0, 1.25, 0]]


@pytest.mark.parametrize(
    ("reward", "why"), [(1.0, "no action token"), (math.nan, "earned nan$"), (math.inf, "earned inf$")]
)
def test_law_04_a_reward_with_no_place_to_sit_on_raises(build_trajectory, reward, why):
    with pytest.raises(UnplacedReward, match=why):
        pack([build_trajectory([((1, 2), (), reward)])], [0])


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_raises(build_trajectory, reward):
    with pytest.raises(UnplacedReward, match=str(reward)):
        pack([build_trajectory([((1, 2), (3,), reward)])], [0])


def test_law_10_a_failure_that_is_not_the_agents_has_no_score_to_learn_from(build_trajectory):
    with pytest.raises(ValueError, match="no score"):
        pack([build_trajectory([((1,), (2,), 0.0)], kind="failed")], [0])


def test_padding_is_told_by_length_not_by_the_pad_id(build_trajectory):
    episodes = [build_trajectory([((1,), (2, 0, 0), 1.0)]), build_trajectory([((1,), (0,), 0.0)])]
    batch = pack(episodes, [0, 0], pad_id=0)
    assert batch.is_real.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.is_action.tolist() == [[False, True, True, True], [False, True, False, False]]


def test_components_that_were_not_computed_are_absent_not_zero(build_trajectory):
    episode = build_trajectory([((1,), (2,), 1.0), ((1,), (2,), 1.0)])
    paid = [
        Turn(t.action, reward=1.0, reward_components=c)
        for t, c in zip(episode.turns, [{"a": 1.0}, {"a": 0.5}], strict=True)
    ]
    other = [Turn(t.action, reward=1.0, reward_components={"b": 0.0}) for t in episode.turns]
    batch = pack([replace(episode, turns=tuple(paid)), replace(episode, turns=tuple(other))], [0, 0])
    assert batch.component_names == ("a", "b")
    assert float(batch.reward_components[0, 0]) == 1.5
    assert float(batch.reward_components[1, 1]) == 0.0
    assert batch.reward_components.isnan().tolist() == [[False, True], [True, False]]


def test_equal_anchors_are_one_state_only_within_a_group(build_trajectory):
    episode = build_trajectory([((1,), (2,), 0.0), ((3,), (4,), 0.0), ((5,), (6,), 0.0)])
    named = replace(
        episode,
        turns=tuple(replace(t, anchor=a) for t, a in zip(episode.turns, ["low", None, "low"], strict=True)),
    )
    batch = pack([named, named], [0, 1])
    assert batch.anchor.tolist() == [[0, 0, -1, -1, 0, 0], [1, 1, -1, -1, 1, 1]]


def test_nothing_to_pack_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        pack([], [])
