"""From the facts of a batch to the targets of its losses, by one row of the algorithm table."""

import torch
from jaxtyping import Float
from torch import Tensor

from turngym.trainer.algorithms import ADVANTAGES, Algorithm
from turngym.trainer.batch import Batch, Targets
from turngym.trainer.credit.gae import bootstrap
from turngym.trainer.credit.stream import ActionStream, Episodes
from turngym.trainer.credit.whiten import normalise, whiten
from turngym.trainer.losses.kl import KL_ESTIMATORS


@torch.no_grad()
def estimate_targets(
    algorithm: Algorithm,
    batch: Batch,
    *,
    values: Float[Tensor, "B T"] | None = None,
    final_values: Float[Tensor, " E"] | None = None,
    reference_logprobs: Float[Tensor, "B T"] | None = None,
) -> Targets:
    """Advantages and returns of every action token of a step's *global* batch, computed before its epochs.

    Args:
        algorithm: the row.
        batch: the facts; only its action tokens are read.
        values: the critic's prediction *before* each action token, read from the hidden state that produces
            the token's logits. Needed iff `algorithm.critic`.
        final_values: V(final), read at `batch.bootstrap_row` and `batch.bootstrap_position`; not read where
            an episode terminated. Needed iff `algorithm.critic` and an episode was truncated.
        reference_logprobs: logπ_ref, nats. Needed iff the KL is taken from the reward.

    Returns:
        Advantages, and the returns that the critic learns, A + V before whitening; both 0 where not an
        action. Without a critic there are no returns: 0. An episode with a missing reward has advantage 0.

    Raises:
        ValueError: something needed is missing.
    """
    stream = ActionStream.of(batch.is_action, batch.episode, batch.segment, episodes=batch.episodes)
    episodes = Episodes(
        is_action=stream.is_action,
        turn=stream.gather(batch.turn),
        rewards=stream.gather(_shaped_rewards(algorithm, batch, reference_logprobs)),
        values=stream.gather(_values(algorithm, batch, values)),
        final_value=_final_value(algorithm, batch, final_values),
        final_turn=batch.bootstrap_turn,
        group=batch.group,
    )
    has_reward = ~episodes.total_reward.isnan()
    learns = stream.is_action & has_reward.unsqueeze(1)

    advantages = ADVANTAGES[algorithm.advantage].estimate(algorithm, episodes)
    if algorithm.whiten == "episode":
        advantages = normalise(advantages, has_reward, ddof=algorithm.std_ddof, eps=algorithm.std_eps)
    if advantages.ndim == 1:
        advantages = advantages.unsqueeze(1).expand(learns.shape)
    advantages = torch.where(learns, advantages, 0)
    # With an advantage of 0, an episode without a reward asks the critic to predict what it predicts.
    returns = advantages + episodes.values if algorithm.critic else torch.zeros_like(advantages)
    if algorithm.whiten == "token":
        advantages = whiten(advantages, learns, ddof=algorithm.std_ddof)
    return Targets(advantages=stream.scatter(advantages), returns=stream.scatter(returns))


def _shaped_rewards(algorithm: Algorithm, batch: Batch, reference_logprobs: Tensor | None) -> Tensor:
    """The environment's reward, less β times the KL of each token where the row takes it from there."""
    if algorithm.kl_coef == 0 or algorithm.kl_in != "reward":
        return batch.rewards
    if reference_logprobs is None:
        raise ValueError(
            f"{algorithm.name} takes the KL from the reward: give reference_logprobs, or set kl_coef = 0"
        )
    kl = KL_ESTIMATORS[algorithm.kl_kind](batch.behaviour_logprobs, reference_logprobs, batch.is_action)
    return batch.rewards - algorithm.kl_coef * kl


def _values(algorithm: Algorithm, batch: Batch, values: Tensor | None) -> Tensor:
    if not algorithm.critic:
        return torch.zeros_like(batch.rewards)
    if values is None:
        raise ValueError(f"{algorithm.name} needs a critic: give its values at the action tokens")
    return values


def _final_value(algorithm: Algorithm, batch: Batch, final_values: Tensor | None) -> Tensor:
    nothing = batch.rewards.new_zeros(batch.episodes)
    goes_on = batch.truncated & ~batch.terminated
    if not algorithm.critic or not goes_on.any():
        return nothing
    unread = goes_on & (batch.bootstrap_row < 0)
    if final_values is None or unread.any():
        which = (goes_on if final_values is None else unread).nonzero().flatten().tolist()
        raise ValueError(
            f"episodes {which} were truncated, but V(final) is missing: read it after the last token"
        )
    return bootstrap(final_values, batch.terminated, batch.truncated)
