"""The records of an episode: actions with their tokens, turns, the trajectory, and how it ended.

A trajectory stores only what each turn added. `Trajectory.segments()` joins the pieces into the sequences that the
engine really saw, with `is_action` true on exactly the tokens that the policy sampled (laws 1 and 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from turngym.envs.episode import EpisodeView
from turngym.envs.messages import Message, ToolSpec

FinishReason = Literal["stop", "length"]
OutcomeKind = Literal["completed", "truncated", "failed"]
OutcomeCause = Literal[
    "terminated",  # completed: the environment ended the episode
    "turns", "tokens", "time", "env",  # truncated: by a limit of the runner, or by the environment's own truncation
    "agent", "env_error", "sandbox", "infrastructure", "cancelled",  # failed: the guilty party
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one turn added to the episode's token sequence, exactly as the engine saw it."""

    context_ids: tuple[int, ...]
    """What came before sampling in this turn: new messages, template glue, generation prompt (environment tokens)."""
    action_ids: tuple[int, ...]
    """The sampled tokens, including a sampled end-of-turn token, excluding anything that we would append."""
    logprobs: tuple[float, ...]
    """Nats, one per action token, under the distribution that was really sampled from (temperature and all)."""
    new_segment: bool = False
    """True if `context_ids` is a whole new context, because the template does not extend the previous tokens."""

    def __post_init__(self) -> None:
        if len(self.logprobs) != len(self.action_ids):
            raise ValueError(f"{len(self.action_ids)} action tokens but {len(self.logprobs)} logprobs")


@dataclass(frozen=True, slots=True)
class Action:
    """What an agent did in one turn."""

    message: Message
    """The assistant's message, parsed."""
    tokens: Tokens | None = None
    """Its tokens; None for agents that have none (expert, human, some HTTP servers): they cannot be trained on."""
    finish_reason: FinishReason = "stop"
    """"length" if the token limit cut it off; such a message is not given to the environment."""
    policy_version: int = 0
    """Number of weight updates of the policy that sampled it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and what the environment made of it."""

    action: Action
    """What the agent did."""
    observation: tuple[Message, ...] = ()
    """The new messages that the environment answered with."""
    reward: float = 0.0
    """The environment's reward of this step."""
    reward_components: Mapping[str, float] = field(default_factory=dict)
    """The unweighted values of the named rewards paid in this step; an absent name was not computed."""
    anchor: str | None = None
    """The environment's name for the state that this turn started from, where it gives one (GiGPO)."""
    agent_s: float = 0.0
    """Wall time of the agent in this turn, in seconds."""
    env_s: float = 0.0
    """Wall time of the environment in this turn, in seconds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended, and whose fault it was if it failed."""

    kind: OutcomeKind
    """Completed (terminated by the environment), truncated (cut by a limit), or failed."""
    cause: OutcomeCause
    """The limit, or the guilty party."""
    error: str | None = None
    """One line of the error, for a failure."""

    @property
    def terminated(self) -> bool:
        """True if the MDP reached a terminal state: no bootstrap. An agent's failure terminates."""
        return self.kind == "completed" or (self.kind == "failed" and self.cause == "agent")

    @property
    def truncated(self) -> bool:
        """True if the episode was cut while it could have gone on: bootstrap from the critic."""
        return self.kind == "truncated"

    @property
    def scored(self) -> bool:
        """False for failures that are not the agent's: they have no reward at all, which is not a reward of 0."""
        return self.kind != "failed" or self.cause == "agent"


@dataclass(frozen=True, slots=True)
class Segment:
    """A sequence of tokens that the engine saw as one, oldest first. All tuples have the same length."""

    ids: tuple[int, ...]
    """Token ids."""
    is_action: tuple[bool, ...]
    """True on the tokens that the policy sampled in this segment."""
    logprobs: tuple[float, ...]
    """Behaviour logprobs in nats; 0 where not an action."""
    turn: tuple[int, ...]
    """Index of the turn that added the token; a final context carries the index of the turn after the last."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode, from the first prompt to its outcome."""

    env_id: str
    """Id under which the environment was made."""
    task_id: str
    """The task's stable id."""
    task_hash: str
    """The task's content hash."""
    seed: int
    """Seed of the reset: with the same actions it gives the same trajectory."""
    sample: int
    """Number of this episode among those of the same task (0 … G−1)."""
    prompt: tuple[Message, ...]
    """The first observation."""
    tools: tuple[ToolSpec, ...]
    """The tools that were offered."""
    turns: tuple[Turn, ...]
    """The turns, in order."""
    outcome: Outcome
    """How it ended."""
    final_context_ids: tuple[int, ...] = ()
    """What the policy would have seen next, after the last action: where V(final) is read."""
    final_new_segment: bool = False
    """True if `final_context_ids` is a whole new context."""
    attempts: int = 1
    """How many fresh environments it took (1 = no retry)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Named figures that the environment reports at the end, such as `success`."""
    wall_s: float = 0.0
    """Wall time of the episode, in seconds."""
    group_view: EpisodeView | None = field(default=None, compare=False, repr=False)
    """What group rewards are computed from, until they are paid; never stored."""

    @property
    def reward(self) -> float:
        """Sum of the turns' rewards. Meaningless where `outcome.scored` is False."""
        return sum(turn.reward for turn in self.turns)

    @property
    def trainable(self) -> bool:
        """True if every turn has its tokens, at least one was sampled, and the outcome has a score."""
        return (
            self.outcome.scored
            and all(turn.action.tokens is not None for turn in self.turns)
            and any(turn.action.tokens.action_ids for turn in self.turns if turn.action.tokens is not None)
        )

    def action_token_count(self) -> int:
        """Number of sampled tokens."""
        return sum(
            len(turn.action.tokens.action_ids) for turn in self.turns if turn.action.tokens is not None
        )

    def segments(self) -> tuple[Segment, ...]:
        """The token sequences as the engine saw them; more than one where a template broke the prefix.

        Raises:
            ValueError: a turn has no tokens.
        """
        builders: list[_SegmentBuilder] = []
        for index, turn in enumerate(self.turns):
            tokens = turn.action.tokens
            if tokens is None:
                raise ValueError(
                    f"turn {index} of task {self.task_id} has no tokens: its agent gives text only"
                )
            if tokens.new_segment or not builders:
                builders.append(_SegmentBuilder())
            builders[-1].context(tokens.context_ids, index)
            builders[-1].action(tokens.action_ids, tokens.logprobs, index)
        if self.final_context_ids:
            if self.final_new_segment or not builders:
                builders.append(_SegmentBuilder())
            builders[-1].context(self.final_context_ids, len(self.turns))
        return tuple(builder.build() for builder in builders)


class _SegmentBuilder:
    def __init__(self) -> None:
        self._ids: list[int] = []
        self._is_action: list[bool] = []
        self._logprobs: list[float] = []
        self._turn: list[int] = []

    def context(self, ids: tuple[int, ...], turn: int) -> None:
        self._extend(ids, (0.0,) * len(ids), turn, is_action=False)

    def action(self, ids: tuple[int, ...], logprobs: tuple[float, ...], turn: int) -> None:
        self._extend(ids, logprobs, turn, is_action=True)

    def _extend(
        self, ids: tuple[int, ...], logprobs: tuple[float, ...], turn: int, *, is_action: bool
    ) -> None:
        self._ids.extend(ids)
        self._logprobs.extend(logprobs)
        self._is_action.extend([is_action] * len(ids))
        self._turn.extend([turn] * len(ids))

    def build(self) -> Segment:
        return Segment(tuple(self._ids), tuple(self._is_action), tuple(self._logprobs), tuple(self._turn))
