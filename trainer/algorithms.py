"""Algorithms as rows of one table: REINFORCE, RLOO, GRPO and PPO differ in choices, not in code.

    ADVANTAGES        how credit is assigned        name -> a pure function of `credit/`
    POLICY_LOSSES     what is minimised             name -> a pure function of `losses/policy.py`
    AGGREGATIONS      how tokens are averaged       name -> a pure function of `losses/aggregate.py`
    KL_ESTIMATORS     how far from the reference    name -> a pure function of `losses/kl.py`
    PRESETS           the algorithms: rows that name one of each, and their constants

A new algorithm is a pure function, its row in one of the tables here, and a row of `PRESETS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from turngym.trainer.credit.gae import gae
from turngym.trainer.credit.group import Std, grpo, rloo
from turngym.trainer.credit.returns import reward_to_go
from turngym.trainer.credit.stream import Episodes
from turngym.trainer.losses.aggregate import AGGREGATIONS
from turngym.trainer.losses.kl import KL_ESTIMATORS
from turngym.trainer.losses.policy import ppo_clip, reinforce
from turngym.trainer.schedules import SCHEDULES

Unit = Literal["episode", "turn", "step", "token"]
"""What an algorithm gives one advantage to, and what its statistics count once."""

Fraction = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
AtLeastOne = Annotated[int, Field(ge=1)]

UNBIASED_KL = frozenset({("reward", "k1"), ("loss", "k2"), ("loss", "k1+"), ("loss", "k3+")})
"""Places and estimators whose gradient is that of a KL to the reference, on-policy: k1 in the reward has
that of KL(π‖π_ref) over whole episodes (at γ = 1), the others have that of its sum over tokens with their
contexts held fixed. See `losses/kl.py`."""


class Algorithm(BaseModel):
    """One row of the table: every choice that makes an algorithm."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    name: str
    """What it is called in logs and reports."""

    advantage: str
    """How credit is assigned; a name of `ADVANTAGES`."""
    gamma_token: Fraction = 1.0
    """γ between two action tokens of one turn."""
    gamma_turn: Fraction = 1.0
    """γ across a turn boundary."""
    lam_token: Fraction = 1.0
    """λ of GAE between two action tokens of one turn."""
    lam_turn: Fraction = 1.0
    """λ of GAE across a turn boundary."""
    std: Std = "none"
    """Whose standard deviation divides group advantages."""
    std_ddof: Literal[0, 1] = 1
    """1 for sample statistics, 0 for the population's; of whitening too."""
    std_eps: NonNegative = 1e-4
    """ε added to a standard deviation over episodes."""
    whiten: Literal["none", "episode", "token"] = "none"
    """Whether advantages are whitened over the batch at the end, and what counts once in doing so."""

    policy_loss: str
    """What is minimised; a name of `POLICY_LOSSES`."""
    clip_low: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """ε_low: the ratio is clipped at 1 − ε_low from below."""
    clip_high: NonNegative = 0.2
    """ε_high: the ratio is clipped at 1 + ε_high from above."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound c of the loss −A·c for tokens with A < 0; None for no bound."""

    aggregation: str
    """How tokens are averaged; a name of `AGGREGATIONS`. The critic's loss follows it."""
    norm_tokens: Positive = 1024.0
    """Constant length of `seq-mean-token-sum-norm`, in action tokens: the most that an episode may sample."""

    value_clip: Positive | None = None
    """How far a prediction may move from the old one before its loss is clipped; None for no clip."""
    value_coef: NonNegative = 0.5
    """Weight of the critic's loss where it shares a trunk with the policy."""
    entropy_coef: NonNegative = 0.0
    """Weight of the entropy bonus."""
    kl_coef: NonNegative = 0.0
    """β, the weight of the KL to the reference policy; 0 needs no reference."""
    kl_schedule: str = "constant"
    """How β falls over the run; a name of `SCHEDULES`."""
    kl_kind: str = "k1"
    """Which estimate of it; a name of `KL_ESTIMATORS`."""
    kl_in: Literal["reward", "loss"] = "reward"
    """Whether it is taken from the reward (detached) or added to the loss."""
    kl_allow_biased: bool = False
    """Accept a pair of place and estimator whose gradient is not that of KL(π‖π_ref)."""

    epochs: AtLeastOne = 1
    """Passes over the batch of a step; advantages are computed once, before the first."""
    minibatches: AtLeastOne = 1
    """Optimiser steps per epoch, each on a share of whole episodes."""

    @property
    def unit(self) -> Unit:
        """What gets one advantage."""
        return ADVANTAGES[self.advantage].unit

    @property
    def critic(self) -> bool:
        """True if the advantage needs a critic's values."""
        return ADVANTAGES[self.advantage].needs_values

    @property
    def needs_group(self) -> bool:
        """True if an episode alone in its group gets no advantage."""
        return ADVANTAGES[self.advantage].needs_group

    def override(self, changes: Mapping[str, object]) -> Self:
        """Change fields of a row, with the checks of a new one."""
        return self.model_validate(self.model_dump() | dict(changes))

    def at(self, progress: float) -> Self:
        """The row with the coefficients that its schedules give when a share of the run is done.

            β(p) = β · s(p)

        Args:
            progress: 0 before the first step; below 1.
        """
        share = SCHEDULES[self.kl_schedule](progress)
        return self if share == 1.0 else self.model_copy(update={"kl_coef": self.kl_coef * share})

    @model_validator(mode="after")
    def _choices_exist_and_fit(self) -> Self:
        for field, table in (
            ("advantage", ADVANTAGES),
            ("policy_loss", POLICY_LOSSES),
            ("aggregation", AGGREGATIONS),
            ("kl_kind", KL_ESTIMATORS),
            ("kl_schedule", SCHEDULES),
        ):
            choice = getattr(self, field)
            if choice not in table:
                raise ValueError(
                    f"{field} = {choice!r} does not exist; choose one of {', '.join(sorted(table))}"
                )
        if self.whiten == "episode" and self.unit != "episode":
            raise ValueError(
                f"whiten = 'episode' needs one advantage per episode, but {self.advantage!r} gives one per "
                f"{self.unit}; write whiten = 'token'"
            )
        pair = (self.kl_in, self.kl_kind)
        if self.kl_coef > 0 and pair not in UNBIASED_KL and not self.kl_allow_biased:
            good = ", ".join(f"{kind} in the {place}" for place, kind in sorted(UNBIASED_KL))
            raise ValueError(
                f"{self.kl_kind} in the {self.kl_in} does not have the gradient of KL(π‖π_ref); "
                f"choose one of {good}, or set kl_allow_biased = true"
            )
        return self


@dataclass(frozen=True, slots=True)
class Advantage:
    """One way to assign credit."""

    estimate: Callable[[Algorithm, Episodes], Tensor]
    """Advantages in the shape of the unit: [E] for episodes, [E, A] for tokens."""
    unit: Unit
    """What gets one advantage."""
    needs_values: bool = False
    """True if it reads a critic's values."""
    needs_group: bool = False
    """True if it compares the episodes of a group."""


def _gae(a: Algorithm, e: Episodes) -> Tensor:
    return gae(
        e.rewards,
        e.values,
        e.is_action,
        e.turn,
        e.final_value,
        e.final_turn,
        gamma_token=a.gamma_token,
        gamma_turn=a.gamma_turn,
        lam_token=a.lam_token,
        lam_turn=a.lam_turn,
    )


def _reward_to_go(a: Algorithm, e: Episodes) -> Tensor:
    return reward_to_go(e.rewards, e.is_action, e.turn, gamma_token=a.gamma_token, gamma_turn=a.gamma_turn)


def _grpo(a: Algorithm, e: Episodes) -> Tensor:
    return grpo(e.total_reward, e.group, std=a.std, ddof=a.std_ddof, eps=a.std_eps)


def _rloo(a: Algorithm, e: Episodes) -> Tensor:
    return rloo(e.total_reward, e.group, std=a.std, ddof=a.std_ddof, eps=a.std_eps)


ADVANTAGES: Mapping[str, Advantage] = MappingProxyType(
    {
        "reward_to_go": Advantage(_reward_to_go, unit="token"),
        "gae": Advantage(_gae, unit="token", needs_values=True),
        "grpo": Advantage(_grpo, unit="episode", needs_group=True),
        "rloo": Advantage(_rloo, unit="episode", needs_group=True),
    }
)
"""Ways to assign credit, by name."""


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """What a policy loss may look at: tensors of one shape, one entry per token."""

    logprobs: Tensor
    """logπ, nats; the variable."""
    proximal_logprobs: Tensor
    """logπ_o of the policy at the start of the update."""
    advantages: Tensor
    """Advantage of each action token."""
    is_action: Tensor
    """True on action tokens."""


def _reinforce(_: Algorithm, t: PolicyInputs) -> Tensor:
    return reinforce(t.logprobs, t.advantages, t.is_action)


def _ppo_clip(a: Algorithm, t: PolicyInputs) -> Tensor:
    return ppo_clip(
        t.logprobs,
        t.proximal_logprobs,
        t.advantages,
        t.is_action,
        clip_low=a.clip_low,
        clip_high=a.clip_high,
        dual_clip=a.dual_clip,
    )


POLICY_LOSSES: Mapping[str, Callable[[Algorithm, PolicyInputs], Tensor]] = MappingProxyType(
    {"reinforce": _reinforce, "ppo_clip": _ppo_clip}
)
"""Policy losses, one number per token, by name."""


PRESETS: Mapping[str, Algorithm] = MappingProxyType(
    {
        row.name: row
        for row in (
            Algorithm(
                name="reinforce",
                advantage="reward_to_go",
                policy_loss="reinforce",
                aggregation="seq-mean-token-sum",
            ),
            Algorithm(
                name="rloo",
                advantage="rloo",
                policy_loss="reinforce",
                aggregation="seq-mean-token-sum",
            ),
            Algorithm(
                name="grpo",
                advantage="grpo",
                std="group",
                policy_loss="ppo_clip",
                aggregation="seq-mean-token-mean",
            ),
            Algorithm(
                name="dr_grpo",
                advantage="grpo",
                policy_loss="ppo_clip",
                aggregation="seq-mean-token-sum-norm",
            ),
            Algorithm(
                name="ppo",
                advantage="gae",
                lam_token=0.95,
                lam_turn=0.95,
                whiten="token",
                policy_loss="ppo_clip",
                value_clip=0.2,
                aggregation="token-mean",
            ),
        )
    }
)
"""The algorithms, by name."""
