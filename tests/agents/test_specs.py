"""Agents by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from turngym.agents.errors import BadSpec, ModelNotFound
from turngym.agents.simple import PolicyAgent
from turngym.agents.specs import make_agent
from turngym.envs.errors import UnknownEnv

CALCULATOR = "turngym/Calculator-v0"


@pytest.mark.parametrize("name", ["expert", "null", "random"])
def test_reference_policies_have_their_own_name(name: str) -> None:
    agent = make_agent(name, CALCULATOR)
    assert isinstance(agent, PolicyAgent)
    assert agent.name == name


@pytest.mark.parametrize("spec", ["exprt", "", "openai:gpt", "hf", "vllm:/models/x"])
def test_an_unknown_spec_says_what_there_is(spec: str) -> None:
    with pytest.raises(BadSpec, match=r"expert.*the models are tiny, smollm2-135m and hf:PATH"):
        make_agent(spec, CALCULATOR)


def test_an_unknown_environment_is_named() -> None:
    with pytest.raises(UnknownEnv, match="turngym/Calculator-v0"):
        make_agent("expert", "turngym/Calculater-v0")


@pytest.mark.parametrize("spec", ["hf:/nowhere/at/all", "hf:"])
def test_a_model_folder_that_is_not_there(spec: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ModelNotFound):
        make_agent(spec, CALCULATOR)


@pytest.mark.parametrize("spec", ["hf:~nosuchuser", "hf:~nosuchuser/model"])
def test_a_home_folder_that_is_nobody_s(spec: str) -> None:
    with pytest.raises(BadSpec, match="~nosuchuser is nobody's home folder here"):
        make_agent(spec, CALCULATOR)


def test_reference_policies_need_no_torch() -> None:
    code = (
        "import sys; from turngym.agents.specs import make_agent;"
        "make_agent('expert', 'turngym/Calculator-v0');"
        "import turngym.evaluation; assert not {'torch', 'transformers', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
