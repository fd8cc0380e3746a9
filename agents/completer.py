"""Any agent as a `Completer`: the model behind a judge in a reward, or behind a simulated user.

judge_model = completer("hf:models/judge", sampling=Sampling(temperature=0))
quality = judge(judge_model, {"true": "Everything it says is true."})
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from turngym.agents.errors import AgentError, BadSpec
from turngym.agents.protocols import Agent, EpisodeStart, NoiseKey
from turngym.agents.specs import BUILT_IN_MODELS, make_agent
from turngym.envs.errors import InfrastructureError
from turngym.envs.messages import Message

_NOWHERE: Final = "turngym/Completion"


class AgentCompleter:
    """Lets an agent say the next message of any conversation. The agent closes with it.

    Each completion is an episode of one turn. Its noise follows from the conversation alone: the same
    conversation gets the same answer, in whatever order and company it is asked.

    Args:
        agent: who answers. A reference policy cannot: it needs a task.
        seed: of the noise; another seed, another answer.
    """

    def __init__(self, agent: Agent, *, seed: int = 0) -> None:
        self._agent = agent
        self._seed = seed

    async def complete(self, messages: Sequence[Message]) -> Message:
        """The assistant message that follows.

        Raises:
            InfrastructureError: the agent failed, or its answer was cut by its token limit.
        """
        said = json.dumps([message.wire() for message in messages], ensure_ascii=True)
        name = hashlib.sha256(said.encode()).hexdigest()
        noise = NoiseKey(run_seed=self._seed, step=0, task=name, sample=0)
        try:
            player = self._agent.start(EpisodeStart(_NOWHERE, (), noise))
            try:
                action = await player.act(messages)
            finally:
                await player.close()
        except AgentError as error:
            raise InfrastructureError(f"{self._agent.name} gave no answer: {error}") from error
        if action.finish_reason == "length":
            raise InfrastructureError(f"the answer of {self._agent.name} was cut: raise its max_tokens")
        return action.message

    async def close(self) -> None:
        """Close the agent. Safe to call twice."""
        await self._agent.close()


def completer(spec: str, *, seed: int = 0, **options: Any) -> AgentCompleter:
    """The completer of a model's spec, such as `hf:PATH`.

    Args:
        spec: as for `make_agent`; it must name a model, since reference policies know only their environment.
        seed: of the noise.
        options: of `make_agent`: sampling, device, max_context, slots, …

    Raises:
        BadSpec: it names no model.
        ModelNotFound, MissingExtra: as `make_agent`.
    """
    if spec not in BUILT_IN_MODELS and ":" not in spec:
        models = ", ".join(BUILT_IN_MODELS)
        raise BadSpec(f"{spec!r} names no model that could answer: write hf:PATH, {models}")
    return AgentCompleter(make_agent(spec, _NOWHERE, **options), seed=seed)
