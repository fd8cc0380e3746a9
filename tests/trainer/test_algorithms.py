"""The table of algorithms: every row is complete, and a row that cannot work says why."""

import pytest
import torch
from pydantic import ValidationError

from turngym.trainer.algorithms import (
    ADVANTAGES,
    POLICY_LOSSES,
    PRESETS,
    UNBIASED_KL,
    Algorithm,
    PolicyInputs,
)
from turngym.trainer.losses.aggregate import AGGREGATIONS
from turngym.trainer.losses.kl import KL_ESTIMATORS


def test_the_presets_of_the_papers() -> None:
    assert set(PRESETS) == {"reinforce", "rloo", "grpo", "dr_grpo", "ppo"}
    grpo, dr_grpo, ppo = PRESETS["grpo"], PRESETS["dr_grpo"], PRESETS["ppo"]
    assert (grpo.advantage, grpo.std, grpo.std_ddof, grpo.std_eps) == ("grpo", "group", 1, 1e-4)
    assert grpo.aggregation == "seq-mean-token-mean"
    assert (dr_grpo.advantage, dr_grpo.std, dr_grpo.aggregation) == (
        "grpo",
        "none",
        "seq-mean-token-sum-norm",
    )
    assert (ppo.advantage, ppo.critic, ppo.whiten) == ("gae", True, "token")
    assert (ppo.gamma_token, ppo.lam_token) == (ppo.gamma_turn, ppo.lam_turn)
    assert [row.name for row in PRESETS.values() if row.critic] == ["ppo"]
    assert {row.name for row in PRESETS.values() if row.needs_group} == {"rloo", "grpo", "dr_grpo"}
    assert all(name == row.name for name, row in PRESETS.items())


def test_every_choice_is_used_by_a_preset_or_reachable_by_an_override() -> None:
    for name in ADVANTAGES:
        assert PRESETS["ppo"].override({"advantage": name}).unit == ADVANTAGES[name].unit
    for field, table in (
        ("policy_loss", POLICY_LOSSES),
        ("aggregation", AGGREGATIONS),
        ("kl_kind", KL_ESTIMATORS),
    ):
        for name in table:
            assert getattr(PRESETS["grpo"].override({field: name}), field) == name


@pytest.mark.parametrize("name", POLICY_LOSSES)
def test_a_policy_loss_takes_its_constants_from_the_row(name: str) -> None:
    new, old = torch.tensor([-1.0], requires_grad=True), torch.tensor([-3.0])
    row = PRESETS["grpo"].override({"policy_loss": name, "clip_high": 0.5})
    loss = POLICY_LOSSES[name](row, PolicyInputs(new, old, torch.tensor([2.0]), torch.tensor([True])))
    assert loss.item() == pytest.approx({"reinforce": 2.0, "ppo_clip": -2 * 1.5}[name])


def test_dual_clip_and_clip_low_come_from_the_row() -> None:
    def loss(new: float, **changes: object) -> float:
        row = PRESETS["grpo"].override(changes)
        facts = PolicyInputs(
            torch.tensor([new]), torch.tensor([0.0]), torch.tensor([-1.0]), torch.tensor([True])
        )
        return POLICY_LOSSES[row.policy_loss](row, facts).item()

    assert loss(2.0, dual_clip=3.0) == 3
    assert loss(-9.0, clip_low=0.25) == 0.75


@pytest.mark.parametrize("field", ["advantage", "policy_loss", "aggregation", "kl_kind"])
def test_an_unknown_choice_names_the_known_ones(field: str) -> None:
    with pytest.raises(ValidationError, match=r"'grpoo' does not exist; choose one of \w+"):
        PRESETS["grpo"].override({field: "grpoo"})


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="gama_token"):
        PRESETS["grpo"].override({"gama_token": 1.0})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gamma_token", 1.1),
        ("lam_turn", -0.1),
        ("clip_low", 1.0),
        ("dual_clip", 1.0),
        ("std_ddof", 2),
        ("epochs", 0),
    ],
)
def test_a_constant_out_of_range_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match=field):
        PRESETS["ppo"].override({field: value})


def test_rows_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        PRESETS["grpo"].epochs = 2  # type: ignore[misc]


def test_whitening_over_episodes_needs_one_advantage_per_episode() -> None:
    assert PRESETS["rloo"].override({"whiten": "episode"}).whiten == "episode"
    with pytest.raises(ValidationError, match="write whiten = 'token'"):
        PRESETS["ppo"].override({"whiten": "episode"})


@pytest.mark.parametrize("place", ["reward", "loss"])
@pytest.mark.parametrize("kind", KL_ESTIMATORS)
def test_a_kl_with_the_wrong_gradient_needs_an_explicit_flag(place: str, kind: str) -> None:
    changes = {"kl_coef": 0.1, "kl_in": place, "kl_kind": kind}
    if (place, kind) in UNBIASED_KL:
        PRESETS["grpo"].override(changes)
    else:
        with pytest.raises(ValidationError, match="kl_allow_biased"):
            PRESETS["grpo"].override(changes)
        PRESETS["grpo"].override(changes | {"kl_allow_biased": True})
    assert PRESETS["grpo"].override({"kl_coef": 0.1}).kl_kind == "k1"


def test_the_kl_is_off_by_default_and_every_field_is_explained() -> None:
    assert all(row.kl_coef == 0 for row in PRESETS.values())
    assert all(field.description for field in Algorithm.model_fields.values())


def test_a_scheduled_kl_coefficient_falls_over_the_run_and_nothing_else_changes() -> None:
    constant = PRESETS["grpo"].override({"kl_coef": 0.12, "kl_in": "loss", "kl_kind": "k2"})
    assert constant.at(0.7) is constant
    falling = constant.override({"kl_schedule": "linear"})
    assert falling.at(0.0) is falling
    assert falling.at(0.25).kl_coef == pytest.approx(0.09)
    assert falling.at(0.999).kl_coef > 0
    assert falling.at(0.25).model_dump(exclude={"kl_coef"}) == falling.model_dump(exclude={"kl_coef"})
    with pytest.raises(ValidationError, match="kl_schedule"):
        constant.override({"kl_schedule": "sudden"})
