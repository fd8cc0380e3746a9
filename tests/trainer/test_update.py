from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn

from turngym.trainer.algorithms import AGGREGATIONS, PRESETS
from turngym.trainer.batch import Batch, pack
from turngym.trainer.credit.estimate import estimate_targets
from turngym.trainer.critic import Critic
from turngym.trainer.optim import Optimiser
from turngym.trainer.update import BatchReading, Learner, needs_reading, read_batch, update


class Recorder:
    """Stands in for an optimiser: keeps each step's gradient and applies nothing."""

    def __init__(self, *modules: nn.Module) -> None:
        self._parameters = [p for module in modules for p in module.parameters()]
        self.gradients: list[list[torch.Tensor]] = []

    def collect(self) -> None:
        pass

    def gradient_norm(self) -> float:
        self.gradients.append(
            [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in self._parameters]
        )
        return float(torch.cat([g.flatten() for g in self.gradients[-1]]).norm())

    def apply(self, norm: float) -> None:
        self.zero_grad()

    def zero_grad(self) -> None:
        for p in self._parameters:
            p.grad = None


def _learner(model, *, critic=None, max_tokens=10_000, recompute=False):
    recorder = Recorder(model, *([critic] if critic is not None else []))
    return Learner(model, critic, None, (recorder,), 0.7, max_tokens, recompute), recorder


def _critic(model, trunk="shared"):
    critic = Critic.of(model, trunk)
    with torch.no_grad():  # away from zero, so that its predictions matter
        critic.head.weight.normal_(generator=torch.Generator().manual_seed(1))
    return critic


def _gradient(model, batch, algorithm, *, critic=None, max_tokens=10_000, poison=False, recompute=False):
    """Gradients of the optimiser steps of an update whose π_o differs from π, and its figures."""
    learner, recorder = _learner(model, critic=critic, max_tokens=max_tokens, recompute=recompute)
    reading = read_batch(learner, batch)
    drift = 0.2 * torch.sin(batch.ids.double() + batch.behaviour_logprobs)
    reading = dataclasses.replace(reading, logprobs=reading.logprobs + drift)
    targets = estimate_targets(algorithm, batch, values=reading.values, final_values=reading.final_values)
    if poison:

        def nan(table):
            return torch.where(batch.is_action, table, torch.nan)

        reading = BatchReading(nan(reading.logprobs), nan(reading.values), reading.final_values, None)
        targets = dataclasses.replace(
            targets, advantages=nan(targets.advantages), returns=nan(targets.returns)
        )
        batch = dataclasses.replace(
            batch, behaviour_logprobs=nan(batch.behaviour_logprobs), rewards=nan(batch.rewards)
        )
    figures = update(
        learner,
        algorithm,
        batch,
        targets,
        reading,
        policy_version=0,
        generator=torch.Generator().manual_seed(0),
    )
    return recorder.gradients, figures


def _assert_close(left, right):
    for g, h in zip(left, right, strict=True):
        # The model's norms compute in float32 whatever its type.
        torch.testing.assert_close(g, h, rtol=1e-5, atol=1e-6)


def _assert_same(left, right):
    for a, b in zip(left[0], right[0], strict=True):
        _assert_close(a, b)
    assert left[1] == pytest.approx(right[1], rel=1e-5)


def _reordered(batch: Batch, order: list[int], padding: int = 0) -> Batch:
    """The same batch with its rows in another order and wider."""
    row_fields = {
        "ids",
        "is_real",
        "is_action",
        "behaviour_logprobs",
        "rewards",
        "turn",
        "policy_version",
        "anchor",
    }
    changes = {
        name: nn.functional.pad(getattr(batch, name)[order], (0, padding), value=3 if name == "ids" else 0)
        for name in row_fields
    }
    new_place = torch.tensor([order.index(row) for row in range(len(order))])
    moved = torch.where(batch.bootstrap_row >= 0, new_place[batch.bootstrap_row], -1)
    return dataclasses.replace(
        batch, **changes, episode=batch.episode[order], segment=batch.segment[order], bootstrap_row=moved
    )


CASES = [
    *(("grpo", {"aggregation": name, "minibatches": 2}) for name in sorted(AGGREGATIONS)),
    ("grpo", {"entropy_coef": 0.1, "epochs": 2}),
    ("ppo", {"minibatches": 2}),
    ("rloo", {}),
    ("reinforce", {"gamma_turn": 0.9}),
]


@pytest.mark.parametrize(("preset", "changes"), CASES)
def test_law_07_micro_batches_row_order_and_padding_change_no_gradient(model, trajectories, preset, changes):
    algorithm = PRESETS[preset].override(changes)
    critic = _critic(model) if algorithm.critic else None
    batch = pack(*trajectories, dtype=torch.float64)
    whole = _gradient(model, batch, algorithm, critic=critic)
    assert all(any(g.abs().max() > 1e-6 for g in step) for step in whole[0])
    for max_tokens in (1, 25):
        _assert_same(_gradient(model, batch, algorithm, critic=critic, max_tokens=max_tokens), whole)
    other = _reordered(batch, [6, 3, 0, 5, 1, 4, 2], padding=6)
    _assert_same(_gradient(model, other, algorithm, critic=critic, max_tokens=25), whole)


@pytest.mark.parametrize("aggregation", sorted(AGGREGATIONS))
def test_gradient_accumulation_of_1_and_of_8_is_the_same(model, build_trajectory, aggregation):
    # Eight episodes of very different lengths: a mean inside each micro-batch would weigh the short ones too
    # much.
    episodes = [build_trajectory([((1, 2), tuple(range(3, 4 + 2 * i)), float(i % 2))]) for i in range(8)]
    batch = pack(episodes, [0, 0, 0, 1, 1, 1, 2, 2], dtype=torch.float64)
    algorithm = PRESETS["grpo"].override({"aggregation": aggregation})
    _assert_same(_gradient(model, batch, algorithm, max_tokens=1), _gradient(model, batch, algorithm))


@pytest.mark.parametrize("preset", ["grpo", "ppo"])
def test_law_03_nan_at_environment_tokens_reaches_nothing(model, trajectories, preset):
    algorithm = PRESETS[preset].override({"minibatches": 2, "entropy_coef": 0.1})
    critic = _critic(model) if algorithm.critic else None
    batch = pack(*trajectories, dtype=torch.float64)
    clean = _gradient(model, batch, algorithm, critic=critic)
    _assert_same(_gradient(model, batch, algorithm, critic=critic, poison=True), clean)


def test_law_08_splitting_an_episode_into_segments_changes_no_normaliser(model, build_trajectory):
    # The second segment repeats the whole context, as a template that breaks the prefix would; no token is
    # new.
    turns = [((1, 2), (4, 5), 0.0), ((6,), (7, 2), 1.0)]
    again = [((1, 2), (4, 5), 0.0), ((1, 2, 4, 5, 6), (7, 2), 1.0)]
    other = build_trajectory([((1, 2), (8,), 0.0)])
    whole = pack([build_trajectory(turns), other], [0, 0], dtype=torch.float64)
    split = pack([build_trajectory(again, new_segments=[1]), other], [0, 0], dtype=torch.float64)
    assert len(split.episode) == len(whole.episode) + 1
    for aggregation in AGGREGATIONS:
        algorithm = PRESETS["grpo"].override({"aggregation": aggregation})
        _assert_close(_gradient(model, whole, algorithm)[0][0], _gradient(model, split, algorithm)[0][0])


def test_a_single_step_has_ratio_exactly_1_and_needs_no_reading(model, trajectories):
    algorithm = PRESETS["grpo"]
    batch = pack(*trajectories, dtype=torch.float64)
    learner, recorder = _learner(model)
    assert not needs_reading(learner, algorithm)
    targets = estimate_targets(algorithm, batch)
    rng = torch.Generator().manual_seed(0)
    figures = update(learner, algorithm, batch, targets, None, policy_version=0, generator=rng)
    assert figures["ratio_mean"] == figures["ratio_max"] == 1.0
    assert figures["approx_kl"] == figures["clip_fraction"] == 0.0
    # ... and the clipped loss has the gradient of plain REINFORCE.
    plain = algorithm.override({"policy_loss": "reinforce"})
    update(learner, plain, batch, targets, None, policy_version=0, generator=rng)
    _assert_close(*recorder.gradients)


def test_engine_and_trainer_are_compared_on_fresh_tokens_before_the_first_step(model, build_trajectory):
    learner, _ = _learner(model)
    algorithm = PRESETS["grpo"].override({"epochs": 2})
    fresh = build_trajectory([((1, 2), (4, 5), 1.0)], policy_version=3)
    stale = build_trajectory([((1, 2), (4, 5), 0.0)], policy_version=2, logprob=-100.0)
    batch = pack([fresh, stale], [0, 0], dtype=torch.float64)
    reading = read_batch(learner, batch)
    figures = update(
        learner,
        algorithm,
        batch,
        estimate_targets(algorithm, batch),
        reading,
        policy_version=3,
        generator=torch.Generator(),
    )
    gaps = (reading.logprobs[0, 2:] + 1.0).abs()
    assert figures["logprob_gap_mean"] == pytest.approx(float(gaps.mean()), abs=1e-6)
    assert figures["logprob_gap_max"] == pytest.approx(float(gaps.max()), abs=1e-6)


def test_episodes_without_an_advantage_cost_no_backward_pass_and_change_nothing(model, build_trajectory):
    # Group 0 has equal rewards; GRPO learns from group 1 alone, but both count in the mean.
    rewards = [1.0, 1.0, 0.0, 1.0]
    episodes = [build_trajectory([((1, 2), (3 + i, 4), reward)]) for i, reward in enumerate(rewards)]
    batch = pack(episodes, [0, 0, 1, 1], dtype=torch.float64)
    algorithm = PRESETS["grpo"]
    skipping, figures = _gradient(model, batch, algorithm)
    whole, all_figures = _gradient(model, batch, algorithm.override({"entropy_coef": 1e-12}))
    _assert_close(skipping[0], whole[0])
    for name in ("entropy", "ratio_mean", "logprob_gap_mean", "policy_loss"):
        assert figures[name] == pytest.approx(all_figures[name])

    backward = []
    model.lm_head.weight.register_hook(lambda gradient: backward.append(gradient.abs().sum()))
    flat = pack(episodes[:2], [0, 0], dtype=torch.float64)
    (gradients,), _ = _gradient(model, flat, algorithm)
    assert backward == []
    assert not any(gradient.any() for gradient in gradients)


def test_needs_reading_without_the_reading_is_an_error(model, trajectories):
    learner, _ = _learner(model)
    algorithm = PRESETS["grpo"].override({"epochs": 2})
    batch = pack(*trajectories)
    with pytest.raises(ValueError, match="read_batch"):
        update(
            learner,
            algorithm,
            batch,
            estimate_targets(algorithm, batch),
            None,
            policy_version=0,
            generator=torch.Generator(),
        )


def test_kl_to_the_reference_pulls_the_policy_back(build_model, trajectories):
    model, reference = build_model(seed=0), build_model(seed=1)
    batch = pack(*trajectories, dtype=torch.float64)
    algorithm = PRESETS["grpo"].override({"kl_coef": 100.0, "kl_in": "loss", "kl_kind": "k2"})
    optimiser = Optimiser(model.named_parameters(), lr=3e-3)
    learner = Learner(model, None, reference, (optimiser,), 1.0, 10_000)
    kls = []
    for _ in range(15):
        reading = read_batch(learner, batch)
        targets = estimate_targets(algorithm, batch)
        kls.append(
            update(
                learner, algorithm, batch, targets, reading, policy_version=0, generator=torch.Generator()
            )["kl_reference"]
        )
    assert kls[-1] < 0.5 * kls[0]


def _updated(learner, algorithm, batch, *, train_policy):
    """Read a batch, take the optimiser steps of one training step, and give their figures."""
    reading = read_batch(learner, batch)
    targets = estimate_targets(algorithm, batch, values=reading.values, final_values=reading.final_values)
    options = {"policy_version": 0, "generator": torch.Generator(), "train_policy": train_policy}
    return update(learner, algorithm, batch, targets, reading, **options)


@pytest.mark.parametrize(("trunk", "enough"), [("shared", 0.9), ("separate", 0.2)])
def test_the_critic_learns_the_returns_alone(model, trajectories, trunk, enough):
    batch = pack(*trajectories, dtype=torch.float64)
    algorithm = PRESETS["ppo"].override({"value_clip": None, "lam_token": 1.0, "lam_turn": 1.0})
    critic = Critic.of(model, trunk)
    parameters = [*model.named_parameters(), *((f"critic.{n}", p) for n, p in critic.named_parameters())]
    learner = Learner(model, critic, None, (Optimiser(parameters, lr=1e-2, max_grad_norm=10.0),), 1.0, 25)
    before = copy.deepcopy(model.state_dict())
    losses = []
    for _ in range(30):
        losses.append(_updated(learner, algorithm, batch, train_policy=False)["value_loss"])
    assert losses[-1] < enough * losses[0]
    moved = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert moved == [], "the critic's warm-up leaves the policy alone"


def test_the_critics_warm_up_does_not_use_up_the_policys_schedule(model, trajectories):
    batch = pack(*trajectories, dtype=torch.float64)
    critic = Critic.of(model, "separate")
    optimisers = tuple(Optimiser(m.named_parameters(), lr=1e-3) for m in (model, critic))
    learner = Learner(model, critic, None, optimisers, 1.0, 1000)
    counts = []
    for train_policy in (False, True):
        _updated(learner, PRESETS["ppo"], batch, train_policy=train_policy)
        counts.append([optimiser.updates for optimiser in optimisers])
    assert counts == [[0, 1], [1, 2]]


def test_a_kl_term_without_a_reference_is_an_error(model, trajectories):
    batch = pack(*trajectories, dtype=torch.float64)
    algorithm = PRESETS["grpo"].override({"kl_coef": 0.1, "kl_in": "loss", "kl_kind": "k2", "minibatches": 2})
    learner = Learner(model, None, None, (Optimiser(model.named_parameters(), lr=1e-3),), 1.0, 1000)
    reading = read_batch(learner, batch)
    targets = estimate_targets(algorithm, batch)
    with pytest.raises(ValueError, match="a KL term, and the learner no reference"):
        update(learner, algorithm, batch, targets, reading, policy_version=0, generator=torch.Generator())


def test_a_gradient_that_is_not_finite_is_reported_and_not_applied(model, trajectories):
    batch = pack(*trajectories, dtype=torch.float64)
    algorithm = PRESETS["grpo"].override({"epochs": 3})
    learner = Learner(model, None, None, (Optimiser(model.named_parameters(), lr=1e-2),), 1.0, 100)
    targets = estimate_targets(algorithm, batch)
    targets.advantages[batch.is_action] = math.inf
    before = copy.deepcopy(model.state_dict())
    reading = read_batch(learner, batch)
    figures = update(
        learner, algorithm, batch, targets, reading, policy_version=0, generator=torch.Generator()
    )
    assert not math.isfinite(figures["grad_norm"])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("trunk", ["shared", "separate"])
def test_recomputation_changes_no_gradient(model, trajectories, trunk):
    batch = pack(*trajectories, dtype=torch.float64)
    critic = _critic(model, trunk)
    algorithm = PRESETS["ppo"]
    whole = _gradient(model, batch, algorithm, critic=critic)
    _assert_same(_gradient(model, batch, algorithm, critic=critic, recompute=True), whole)
