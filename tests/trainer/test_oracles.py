"""Outputs of public implementations on random inputs: every case of every formula that exists here.

The cases lie beside the checkout (`../shared/oracles`, or the folder in TURNGYM_ORACLES). Without them these
tests are skipped, or fail where TURNGYM_REQUIRE names `oracles`.
"""

import json
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from turngym.trainer.algorithms import POLICY_LOSSES, PRESETS, Algorithm, PolicyInputs
from turngym.trainer.batch import Batch
from turngym.trainer.credit.estimate import estimate_targets
from turngym.trainer.forward import Rows, read_policy
from turngym.trainer.losses.aggregate import Normaliser, aggregate
from turngym.trainer.losses.kl import KL_ESTIMATORS
from turngym.trainer.losses.value import is_value_clipped, value_loss

ORACLES = Path(os.environ.get("TURNGYM_ORACLES") or Path(__file__).parents[2] / ".." / "shared" / "oracles")
Case = dict[str, Any]

LATER = {
    "group_advantages": {
        "remax",
        "gdpo_token_whitened",
        "gdpo_sequence_normalised",
        "gdpo_missing_component",
    },
    "policy_losses": {"cispo_relative_bounds", "cispo_absolute_upper_bound", "gspo", "sapo"},
    "kl_entropy": {"k3_importance_weighted"},
}
"""Algorithms of these files that the table does not have yet."""


def cases(family: str) -> list[Any]:
    """The cases of a family, or one that stands for all if the folder is absent."""
    if not ORACLES.is_dir():
        return [pytest.param(None, id="absent")]
    found = json.loads((ORACLES / f"{family}.json").read_text())
    return [
        pytest.param(case, id=case["name"])
        for case in found
        if case["algorithm"] not in LATER.get(family, ())
    ]


def oracle(family: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases(family))


@pytest.fixture(autouse=True)
def _oracles_are_there() -> None:
    if not ORACLES.is_dir():
        reason = f"no oracles at {ORACLES.resolve()}: set TURNGYM_ORACLES to the folder that holds them"
        if "oracles" in re.findall(r"\w+", os.environ.get("TURNGYM_REQUIRE", "")):
            pytest.fail(reason)
        pytest.skip(reason)


def numbers(x: Any) -> Tensor:
    """Float64, with NaN where a number is missing."""

    def fill(y: Any) -> Any:
        return [fill(z) for z in y] if isinstance(y, list) else float("nan") if y is None else y

    return torch.tensor(fill(x), dtype=torch.float64)


def flags(x: Any) -> Tensor:
    return torch.tensor(x, dtype=torch.bool)


def group_ids(names: list[str]) -> Tensor:
    """Integers in the order of first appearance."""
    return torch.tensor([list(dict.fromkeys(names)).index(name) for name in names])


def assert_matches(found: Any, expected: Any, case: Case, where: Tensor | None = None) -> None:
    """|x − e| ≤ tolerance · max(1, |e|), at the positions that mean something."""
    x, e = torch.as_tensor(found, dtype=torch.float64).detach(), numbers(expected)
    assert x.shape == e.shape
    bad = (x - e).abs() > case["tolerance"] * e.abs().clamp(min=1)
    bad = bad | ~x.isfinite()
    if where is not None:
        bad = bad & where
    assert not bad.any(), f"{case['name']}: {x[bad].tolist()} instead of {e[bad].tolist()}"


def gradient(loss: Tensor, variable: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad(loss, variable, retain_graph=True)
    return slope


def batch_of(
    rewards: Tensor,
    is_action: Tensor,
    *,
    group: Tensor | None = None,
    goes_on: Tensor | None = None,
    **facts: Tensor,
) -> Batch:
    """One row per episode; terminated, or truncated at the end of its row where `goes_on`."""
    rows, width = is_action.shape
    truncated = torch.zeros(rows, dtype=torch.bool) if goes_on is None else goes_on
    defaults = {
        "ids": torch.zeros(rows, width, dtype=torch.long),
        "is_real": torch.ones(rows, width, dtype=torch.bool),
        "is_action": is_action,
        "behaviour_logprobs": torch.zeros(rows, width, dtype=torch.float64),
        "rewards": rewards,
        "turn": torch.zeros(rows, width, dtype=torch.long),
        "policy_version": torch.zeros(rows, width, dtype=torch.long),
        "episode": torch.arange(rows),
        "segment": torch.zeros(rows, dtype=torch.long),
        "terminated": ~truncated,
        "truncated": truncated,
        "group": torch.zeros(rows, dtype=torch.long) if group is None else group,
        "anchor": torch.full((rows, width), -1),
        "reward_components": torch.zeros(rows, 0, dtype=torch.float64),
        "bootstrap_row": torch.where(truncated, torch.arange(rows), -1),
        "bootstrap_position": torch.where(truncated, width - 1, -1),
    }
    defaults["bootstrap_turn"] = torch.where(truncated, facts.get("turn", defaults["turn"])[:, -1], -1)
    return Batch(**(defaults | facts), component_names=())


def outcome_batch(totals: Tensor, group: Tensor, is_action: Tensor | None = None) -> Batch:
    """Episodes that are paid at their last action token. Without a mask each samples one token."""
    if is_action is None:
        is_action = torch.ones(len(totals), 1, dtype=torch.bool)
    last = is_action & (is_action.flip(1).cumsum(1).flip(1) == 1)
    return batch_of(torch.where(last, totals[:, None], 0), is_action, group=group)


def plain_gae(gamma: float, lam: float, **changes: object) -> Algorithm:
    pair = {"gamma_token": gamma, "gamma_turn": gamma, "lam_token": lam, "lam_turn": lam}
    return PRESETS["ppo"].override({"whiten": "none", **pair, **changes})


# ------------------------------------------------------------------------------------------------------ GAE


def carry_forward(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    acts = flags(given["is_action"])
    batch = batch_of(numbers(given["rewards"]), acts)
    values = numbers(given["values"])
    found = estimate_targets(plain_gae(given["gamma"], given["lam"]), batch, values=values)
    assert_matches(found.advantages, expected["advantages"], case, acts)
    assert_matches(found.returns, expected["returns"], case, acts)
    whitened = estimate_targets(plain_gae(given["gamma"], given["lam"], whiten="token"), batch, values=values)
    assert_matches(whitened.advantages, expected["whitened_advantages"], case, acts)
    assert_matches(whitened.returns, expected["returns"], case, acts)


def insert_invariance(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    for layout in (given["compact"], given["gapped"]):
        acts = flags(layout["is_action"])
        batch = batch_of(numbers(layout["rewards"]), acts)
        found = estimate_targets(
            plain_gae(given["gamma"], given["lam"]), batch, values=numbers(layout["values"])
        )
        assert_matches(found.advantages[acts][None], expected["advantages_at_actions"], case)
        assert_matches(found.returns[acts][None], expected["returns_at_actions"], case)


def classic(
    rewards: Tensor, values: Tensor, ends_after: Tensor, last_value: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """One environment's steps, some of which end an episode: each episode in between is a row of a batch."""
    bounds = [0, *(t + 1 for t in ends_after.nonzero().flatten().tolist()), len(rewards)]
    spans = [(a, b) for a, b in pairwise(bounds) if a < b]
    acts = torch.zeros(len(spans), len(rewards), dtype=torch.bool)
    for i, (a, b) in enumerate(spans):
        acts[i, a:b] = True
    goes_on = torch.tensor([not ends_after[b - 1] for _, b in spans])
    batch = batch_of(rewards.expand(acts.shape), acts, goes_on=goes_on)
    finals = last_value.expand(len(spans))
    targets = estimate_targets(
        plain_gae(gamma, lam), batch, values=values.expand(acts.shape), final_values=finals
    )
    return targets.advantages.sum(0), targets.returns.sum(0)


def classic_bootstrap(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    discounts, values = numbers(given["discounts"]), numbers(given["values"])
    gamma = discounts.max().item()
    assert set(discounts.tolist()) <= {0.0, gamma}
    advantages, returns = classic(
        numbers(given["rewards"]), values[:-1], discounts == 0, values[-1], gamma, given["lam"]
    )
    assert_matches(advantages, expected["advantages"], case)
    assert_matches(returns, expected["returns"], case)


def classic_vectorised(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    dones = torch.cat([numbers(given["dones"]), numbers(given["next_done"])[None]])[1:].bool()
    columns = [
        classic(rewards, values, ends, last, given["gamma"], given["lam"])
        for rewards, values, ends, last in zip(
            numbers(given["rewards"]).T,
            numbers(given["values"]).T,
            dones.T,
            numbers(given["next_value"]),
            strict=True,
        )
    ]
    assert_matches(torch.stack([a for a, _ in columns], dim=1), expected["advantages"], case)
    assert_matches(torch.stack([r for _, r in columns], dim=1), expected["returns"], case)


GAE: dict[str, Callable[[Case], None]] = {
    "gae_carry_forward": carry_forward,
    "gae_insert_invariance": insert_invariance,
    "gae_classic_bootstrap": classic_bootstrap,
    "gae_classic_vectorised": classic_vectorised,
}


@oracle("gae")
def test_gae(case: Case) -> None:
    GAE[case["algorithm"]](case)


# ----------------------------------------------------------------------------------------- group advantages

GROUP_ROWS = {
    "grpo_std_ddof1_eps1e-6": PRESETS["grpo"].override({"std_eps": 1e-6}),
    "grpo_std_ddof1_eps1e-4": PRESETS["grpo"],
    "grpo_std_ddof0_eps1e-8": PRESETS["grpo"].override({"std_ddof": 0, "std_eps": 1e-8}),
    "grpo_batch_std": PRESETS["grpo"].override({"std": "batch"}),
    "grpo_missing_reward": PRESETS["grpo"],
    "dr_grpo": PRESETS["dr_grpo"],
    "rloo": PRESETS["rloo"],
    "rloo_missing_reward": PRESETS["rloo"],
    "rloo_batch_normalised": PRESETS["rloo"].override({"whiten": "episode"}),
    "reinforce_pp": PRESETS["reinforce"].override({"whiten": "token"}),
    "reinforce_pp_baseline": PRESETS["dr_grpo"].override({"whiten": "token"}),
}


@oracle("group_advantages")
def test_group_advantages(case: Case) -> None:
    given, expected, row = case["inputs"], case["expected"], GROUP_ROWS[case["algorithm"]]
    if case["algorithm"] == "reinforce_pp":
        acts = flags(given["is_action"])
        row = row.override({"gamma_token": given["gamma"], "gamma_turn": given["gamma"]})
        batch = batch_of(numbers(given["token_rewards"]), acts)
        plain = estimate_targets(row.override({"whiten": "none"}), batch)
        assert_matches(plain.advantages, expected["returns"], case, acts)
        assert_matches(estimate_targets(row, batch).advantages, expected["advantages"], case, acts)
        return
    acts = flags(given["is_action"]) if "is_action" in given else None
    batch = outcome_batch(numbers(given["rewards"]), group_ids(given["group_ids"]), acts)
    found = estimate_targets(row, batch).advantages
    assert_matches(found if acts is not None else found[:, 0], expected["advantages"], case, acts)


# -------------------------------------------------------------------------------------------- policy losses


@oracle("policy_losses")
def test_policy_losses(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    acts = flags(given["is_action"])
    logprobs = numbers(given["logprobs"]).requires_grad_()
    row = PRESETS["grpo"].override(
        {
            "policy_loss": "reinforce" if case["algorithm"] == "reinforce" else "ppo_clip",
            "clip_low": given.get("eps_low", 0.2),
            "clip_high": given.get("eps_high", 0.2),
            "dual_clip": given.get("dual_clip"),
            "aggregation": given["aggregation"],
        }
    )
    assert case["algorithm"] in {"reinforce", "ppo_clip", "ppo_clip_higher", "ppo_dual_clip"}
    proximal = numbers(given.get("old_logprobs", given["logprobs"]))
    inputs = PolicyInputs(logprobs, proximal, numbers(given["advantages"]), acts)
    per_token = POLICY_LOSSES[row.policy_loss](row, inputs)
    assert_matches(per_token, expected["per_token_loss"], case)
    assert_matches(gradient(per_token.sum(), logprobs), expected["grad_of_sum"], case)
    episode = torch.arange(len(acts))[:, None]
    normaliser = Normaliser.of(row.aggregation, acts, episode, torch.zeros(len(acts), dtype=torch.long))
    loss = aggregate(per_token, acts, episode, normaliser)
    assert_matches(loss, expected["loss"], case)
    assert_matches(gradient(loss, logprobs), expected["grad_of_loss"], case)


# ---------------------------------------------------------------------------------------------- aggregation


@oracle("aggregation")
def test_aggregation(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    acts = flags(given["is_action"])
    losses = numbers(given["per_token_loss"]).requires_grad_()
    episode, group = torch.arange(len(acts))[:, None], torch.zeros(len(acts), dtype=torch.long)
    for prompt, rows in enumerate(given.get("prompt_rows", [])):
        group[rows] = prompt
    normaliser = Normaliser.of(given["mode"], acts, episode, group, norm_tokens=given.get("norm", 1.0))
    total = aggregate(losses, acts, episode, normaliser)
    assert_matches(total, expected["total"], case)
    assert_matches(gradient(total, losses), expected["weights"], case)
    if "micro_batches" in given:
        terms = [
            aggregate(losses[rows], acts[rows], episode[rows], normaliser) for rows in given["micro_batches"]
        ]
        assert_matches(torch.stack(terms), expected["micro_batch_terms"], case)
        torch.testing.assert_close(torch.stack(terms).sum(), total)


# ----------------------------------------------------------------------------------------------- value loss


@oracle("value_loss")
def test_value_loss(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    assert (case["algorithm"] == "value_clipped") == ("eps" in given)
    acts = flags(given["is_action"])
    values, returns = numbers(given["values"]).requires_grad_(), numbers(given["returns"])
    old = numbers(given.get("old_values", given["values"]))
    per_token = value_loss(values, old, returns, acts, clip=given.get("eps"))
    assert_matches(per_token, expected["per_token_loss"], case)
    episode = torch.arange(len(acts))[:, None]
    normaliser = Normaliser.of("token-mean", acts, episode, torch.zeros(len(acts), dtype=torch.long))
    loss = aggregate(per_token, acts, episode, normaliser)
    assert_matches(loss, expected["loss"], case)
    assert_matches(gradient(loss, values), expected["grad_of_loss"], case)
    if "clipfrac" in expected:
        clipped = is_value_clipped(values, old, returns, acts, clip=given["eps"])
        assert_matches(clipped[acts].double().mean(), expected["clipfrac"], case)


# ------------------------------------------------------------------------------------------- KL and entropy

KL = {"k1": "k1", "k2": "k2", "k3": "k3", "k1_straight_through_k2": "k1+", "k3_straight_through_k2": "k3+"}


@oracle("kl_entropy")
def test_kl_and_entropy(case: Case) -> None:
    {"entropy": entropy, "kl_in_reward_k1": kl_in_reward}.get(case["algorithm"], kl_estimator)(case)


def kl_estimator(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    acts = flags(given["is_action"])
    logprobs = numbers(given["logprobs"]).requires_grad_()
    values = KL_ESTIMATORS[KL[case["algorithm"]]](logprobs, numbers(given["ref_logprobs"]), acts)
    assert_matches(values, expected["values"], case)
    assert_matches(gradient(values.sum(), logprobs), expected["grad"], case)
    if "token_mean" in expected:
        assert_matches(values[acts].mean(), expected["token_mean"], case)


def kl_in_reward(case: Case) -> None:
    """Rewards that are not discounted at all are their own returns (γ = 0)."""
    given = case["inputs"]
    acts = flags(given["is_action"])
    row = PRESETS["reinforce"].override({"kl_coef": given["beta"], "gamma_token": 0.0, "gamma_turn": 0.0})
    batch = batch_of(numbers(given["token_rewards"]), acts, behaviour_logprobs=numbers(given["logprobs"]))
    found = estimate_targets(row, batch, reference_logprobs=numbers(given["ref_logprobs"]))
    assert_matches(found.advantages, case["expected"]["token_rewards"], case, acts)


def entropy(case: Case) -> None:
    """The hidden states are the logits, one position early, and the head passes them on."""
    given, expected = case["inputs"], case["expected"]
    acts = flags(given["is_action"])
    logits = numbers(given["logits"]).requires_grad_()
    hidden = nn.functional.pad(logits, (0, 0, 0, 1))
    late = nn.functional.pad(acts, (1, 0))
    head = nn.Linear(logits.shape[-1], logits.shape[-1], bias=False, dtype=torch.float64)
    nn.init.eye_(head.weight)
    rows = Rows(torch.zeros_like(late, dtype=torch.long), torch.ones_like(late), late)
    found = read_policy(head, hidden, rows, temperature=1.0, entropy_gradient=True).entropy[:, 1:]
    assert_matches(found, expected["entropy"], case)
    token_mean = found.sum() / acts.sum()
    assert_matches(token_mean, expected["token_mean"], case)
    assert_matches(gradient(token_mean, logits), expected["grad_of_token_mean"], case)


# -------------------------------------------------------------------------------------------- disagreements


def gap_gae(given: Case) -> Tensor:
    batch = batch_of(numbers(given["rewards"]), flags(given["is_action"]))
    row = plain_gae(given["gamma"], given["lam"])
    return estimate_targets(row, batch, values=numbers(given["values"])).advantages


def gap_returns(given: Case) -> Tensor:
    row = PRESETS["reinforce"].override({"gamma_token": given["gamma"], "gamma_turn": given["gamma"]})
    return estimate_targets(
        row, batch_of(numbers(given["token_rewards"]), flags(given["is_action"]))
    ).advantages


def group_row(preset: str, **changes: object) -> Callable[[Case], Tensor]:
    def advantages(given: Case) -> Tensor:
        batch = outcome_batch(numbers(given["rewards"]), group_ids(given["group_ids"]))
        return estimate_targets(PRESETS[preset].override(changes), batch).advantages[:, 0]

    return advantages


def whole_batch(given: Case) -> Tensor:
    acts = flags(given["is_action"])
    episode = torch.arange(len(acts))[:, None]
    group = torch.zeros(len(acts), dtype=torch.long)
    normaliser = Normaliser.of(given.get("mode", "token-mean"), acts, episode, group)
    return aggregate(numbers(given["per_token_loss"]), acts, episode, normaliser)


def uncapped_k3(given: Case) -> Tensor:
    inputs = (numbers(given[name]) for name in ("logprobs", "ref_logprobs"))
    return KL_ESTIMATORS["k3"](*inputs, flags(given["is_action"]))


SIDES = [
    ("gae_over_environment_gaps", "verl", gap_gae),
    ("reinforce_pp_multi_turn", "verl", gap_returns),
    ("grpo_singleton_group", "NVIDIA-NeMo", group_row("grpo", std_eps=1e-6)),
    ("rloo_singleton_group", "NovaSky-AI/SkyRL", group_row("rloo")),
    ("grpo_std_convention", "trl", group_row("grpo")),
    ("grpo_std_convention", "verl", group_row("grpo", std_eps=1e-6)),
    ("grpo_std_convention", "allenai", group_row("grpo", std_ddof=0, std_eps=1e-8)),
    ("grpo_std_convention", "NVIDIA-NeMo", group_row("rloo", std="group", std_eps=1e-6)),
    ("seq_mean_fully_masked_row", "verl", whole_batch),
    ("token_mean_micro_batches", "verl", whole_batch),
    ("k3_clamps", "trl", uncapped_k3),
]
"""Where public implementations disagree: the one whose answer is also ours, by default or by option."""


@pytest.mark.filterwarnings("ignore::turngym.trainer.credit.group.SmallGroupWarning")
@pytest.mark.parametrize(("name", "side", "ours"), SIDES, ids=[f"{name}-{side}" for name, side, _ in SIDES])
def test_where_implementations_disagree_ours_is_the_documented_side(
    name: str, side: str, ours: Callable[[Case], Tensor]
) -> None:
    (case,) = (
        case for case in json.loads((ORACLES / "disagreements.json").read_text()) if case["name"] == name
    )
    result = next(result for result in case["results"] if result["source"].startswith(side))
    (expected,) = (value for key, value in result.items() if key != "source")
    assert_matches(ours(case["inputs"]), expected, {"name": name, "tolerance": 1e-6})


# ------------------------------------------------------------------------------------------------ the files


def test_no_algorithm_of_these_files_is_left_out_in_silence() -> None:
    known = {
        "gae": set(GAE),
        "group_advantages": set(GROUP_ROWS),
        "policy_losses": {"reinforce", "ppo_clip", "ppo_clip_higher", "ppo_dual_clip"},
        "aggregation": {"token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm",
                        "prompt-mean"},
        "value_loss": {"value_clipped", "value_unclipped"},
        "kl_entropy": {*KL, "entropy", "kl_in_reward_k1"},
    }  # fmt: skip
    for family, names in known.items():
        there = {case["algorithm"] for case in json.loads((ORACLES / f"{family}.json").read_text())}
        assert there <= names | LATER.get(family, set()), family
