"""Small causal models and hand-made trajectories for the trainer's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from turngym.agents.types import Action, Outcome, Tokens, Trajectory, Turn
from turngym.envs.messages import assistant, user
from turngym.trainer.batch import Batch, pack

VOCABULARY = 23


def make_model(
    *, vocabulary: int = VOCABULARY, dtype: torch.dtype = torch.float64, seed: int = 0
) -> LlamaForCausalLM:
    """A two-layer model with sharp enough logits that mistakes show."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return model.to(dtype).eval()


def make_trajectory(
    turns: Sequence[tuple[Sequence[int], Sequence[int], float]],
    *,
    kind: str = "completed",
    final_context: Sequence[int] = (),
    new_segments: Sequence[int] = (),
    final_new_segment: bool = False,
    finish_reason: str = "stop",
    logprob: float = -1.0,
    policy_version: int = 0,
    task_id: str = "task-0",
    sample: int = 0,
) -> Trajectory:
    """An episode from (context ids, action ids, reward) of each turn."""
    cause = {"completed": "terminated", "truncated": "turns", "failed": "infrastructure"}[kind]
    return Trajectory(
        env_id="turngym/Test-v0",
        task_id=task_id,
        task_hash="0" * 16,
        seed=0,
        sample=sample,
        prompt=(user("?"),),
        tools=(),
        turns=tuple(
            Turn(
                Action(
                    assistant("!"),
                    Tokens(
                        tuple(context), tuple(action), (logprob,) * len(action), new_segment=i in new_segments
                    ),
                    finish_reason=finish_reason,  # type: ignore[arg-type]
                    policy_version=policy_version,
                ),
                reward=reward,
            )
            for i, (context, action, reward) in enumerate(turns)
        ),
        outcome=Outcome(kind, cause),  # type: ignore[arg-type]
        final_context_ids=tuple(final_context),
        final_new_segment=final_new_segment,
    )


@pytest.fixture
def model() -> LlamaForCausalLM:
    return make_model()


@pytest.fixture
def build_model() -> Callable[..., LlamaForCausalLM]:
    return make_model


@pytest.fixture
def build_trajectory() -> Callable[..., Trajectory]:
    return make_trajectory


def many_shapes() -> tuple[list[Trajectory], list[int]]:
    """Episodes of many shapes (lengths, segments, an episode cut short, one that ends on the environment),
    and groups."""
    return [
        make_trajectory([((1, 2, 3), (4, 5), 0.0), ((6,), (7, 2), 1.0)]),
        make_trajectory([((1, 2, 3), (9, 5, 5), 0.5), ((6, 8, 1), (2,), -0.25)], final_context=(3, 3)),
        make_trajectory(
            [((2, 2), (4,), 0.0), ((9, 9, 1, 3), (5, 6, 7), 0.0)], kind="truncated", final_context=(1, 4)
        ),
        make_trajectory([((2, 2), (8, 8), 0.0), ((2, 3, 8, 1), (5, 1), 0.75)], new_segments=[1]),
        make_trajectory(
            [((2,), (3,), 0.1)], kind="truncated", final_context=(2, 7, 7, 1), final_new_segment=True
        ),
    ], [0, 0, 1, 1, 1]


@pytest.fixture
def trajectories() -> tuple[list[Trajectory], list[int]]:
    return many_shapes()


@pytest.fixture(scope="session")
def trajectories_batch() -> Batch:
    return pack(*many_shapes())
