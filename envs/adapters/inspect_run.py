"""One sample of an Inspect task, played from outside: its solver asks "the model", and an environment answers.

An Inspect solver calls the model wherever it likes, any number of times; an environment is called, one step at a
time. So the solver runs as a task of its own on the background loop, against a model whose `generate` hands over the
conversation and waits for the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from turngym.envs.errors import ContractError, GradingError, MissingExtra
from turngym.envs.messages import FunctionSpec, Message, ToolCall, ToolSpec

try:
    from inspect_ai import Task
    from inspect_ai._eval.task.generate import task_generate
    from inspect_ai.dataset import Sample
    from inspect_ai.log._samples import active_sample
    from inspect_ai.log._transcript import Transcript, init_transcript
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageUser,
        ContentText,
        GenerateConfig,
        ModelAPI,
        ModelName,
        ModelOutput,
        get_model,
        modelapi,
    )
    from inspect_ai.model._model import init_active_model, init_sample_model_data
    from inspect_ai.scorer import Target, value_to_float
    from inspect_ai.solver import TaskState, chain
    from inspect_ai.solver._task_state import set_sample_state
    from inspect_ai.tool import ToolCall as ForeignCall
    from inspect_ai.tool import ToolInfo
    from inspect_ai.util._store import init_subtask_store
except ImportError as missing:
    raise MissingExtra(
        f'inspect-ai is not installed ({missing}): pip install "turngym[inspect]"'
    ) from missing

_MANY: Final = 1 << 20
"""Connections: an episode that waits for its agent must not keep others from asking."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The solver waits for the next message of the agent."""

    messages: tuple[Message, ...]
    """What was added to the conversation since the agent's last message."""
    tools: tuple[ToolSpec, ...]
    """What it offers."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The solver is done, and its scorers have spoken."""

    scores: tuple[tuple[str, float], ...]
    """By name, in the order of the task's scorers."""


class _Agent(ModelAPI):  # type: ignore[misc]
    """A "model" whose answers come from outside; one per sample."""

    def __init__(self, model_name: str, config: GenerateConfig = GenerateConfig(), **_: Any) -> None:  # noqa: B008
        super().__init__(model_name, config=config)
        self.asked: asyncio.Queue[tuple[list[ChatMessage], list[ToolInfo]]] = asyncio.Queue()
        self.answers: asyncio.Queue[ModelOutput] = asyncio.Queue()
        self._key = uuid4().hex

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: Any,  # noqa: ARG002
        config: GenerateConfig,  # noqa: ARG002
    ) -> ModelOutput:
        """Hand the conversation over, and wait."""
        await self.asked.put((list(input), list(tools)))
        return await self.answers.get()

    def connection_key(self) -> str:
        """No two samples share a limit of connections."""
        return self._key

    def max_connections(self) -> int:
        """As many as there are samples."""
        return _MANY


@modelapi(name="turngym")  # type: ignore[untyped-decorator]
def _turngym() -> type[ModelAPI]:
    return _Agent


class Run:
    """A sample being played. All of it happens on one event loop.

    Args:
        task: the Inspect task.
        sample: of its data set.
    """

    def __init__(self, task: Task, sample: Sample) -> None:
        self._task = task
        self._sample = sample
        self._model = get_model("turngym/agent", config=GenerateConfig(max_retries=0), memoize=False)
        assert isinstance(self._model.api, _Agent)
        self._agent = self._model.api
        self._seen: list[Message] = []
        self._playing = asyncio.ensure_future(self._play())
        self.opening: Asked | Ended
        """What came before the agent's first message; set by `begin`."""

    async def begin(self) -> Run:
        """Run the solver up to its first question."""
        self.opening = await self._next()
        return self

    async def say(self, message: Message) -> Asked | Ended:
        """Answer the solver, and wait for what it asks next, or for its end."""
        self._seen.append(message)
        await self._agent.answers.put(_output(message))
        return await self._next()

    async def stop(self) -> None:
        """Abandon the sample."""
        self._playing.cancel()
        await asyncio.gather(self._playing, return_exceptions=True)

    async def _next(self) -> Asked | Ended:
        asking = asyncio.ensure_future(self._agent.asked.get())
        try:
            await asyncio.wait({asking, self._playing}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return self._playing.result()
            conversation, tools = asking.result()
        finally:
            asking.cancel()
        messages = [own_message(message) for message in conversation]
        before = len(self._seen)
        if not _extends(messages, self._seen):
            raise ContractError(
                f"the solver of sample {self._sample.id!r} rewrites the conversation; only what extends it can be "
                "an environment's observation"
            )
        self._seen = messages
        return Asked(tuple(messages[before:]), tuple(_spec(tool) for tool in tools))

    async def _play(self) -> Ended:
        sample = self._sample
        state = TaskState(
            model=ModelName(self._model), sample_id=sample.id or "", epoch=1, input=sample.input,
            messages=opening_messages(sample), target=Target(sample.target), choices=sample.choices or [],
            metadata=dict(sample.metadata or {}),
        )  # fmt: skip
        transcript = Transcript()
        init_active_model(self._model, GenerateConfig())
        init_sample_model_data()
        set_sample_state(state)
        init_transcript(transcript)
        init_subtask_store(state.store)

        async def generate(
            state: TaskState, tool_calls: Any = "loop", cache: Any = False, **_: Any
        ) -> TaskState:
            return await task_generate(self._model, state, tool_calls, cache, GenerateConfig())

        async with active_sample(
            task=self._task.name, log_location="", model="turngym/agent", sample=sample, epoch=1, message_limit=None,
            token_limit=None, cost_limit=None, time_limit=None, working_limit=None, fails_on_error=True,
            transcript=transcript, eval_id="turngym", sample_uuid=state.uuid,
        ):  # fmt: skip
            steps = [self._task.setup, self._task.solver]
            try:
                state = await chain(*(step for step in steps if step is not None))(state, generate)
                return Ended(tuple(await self._scores(state)))
            finally:
                if self._task.cleanup is not None:
                    await self._task.cleanup(state)

    async def _scores(self, state: TaskState) -> list[tuple[str, float]]:
        as_number = value_to_float()
        scores: list[tuple[str, float]] = []
        for scorer in self._task.scorer or []:
            name = scorer_name(scorer)
            try:
                score = await scorer(state, state.target)
                if score is None:
                    raise GradingError("it gave no score")
                values = score.value if isinstance(score.value, dict) else {name: score.value}
                scores += [(key, as_number(value)) for key, value in values.items()]
            except Exception as error:
                raise GradingError(f"scorer {name} failed on sample {state.sample_id}: {error}") from error
        return scores


def scorer_name(scorer: Any) -> str:
    """What a scorer is called in reports."""
    from inspect_ai._util.registry import registry_unqualified_name

    return str(registry_unqualified_name(scorer))


def opening_messages(sample: Sample) -> list[ChatMessage]:
    """A sample's input as messages."""
    return [ChatMessageUser(content=sample.input)] if isinstance(sample.input, str) else list(sample.input)


def own_message(message: ChatMessage) -> Message:
    """A message of Inspect's as ours.

    Raises:
        ContractError: it holds images or sounds.
    """
    if not isinstance(message.content, str) and any(
        not isinstance(part, ContentText) and part.type != "reasoning" for part in message.content
    ):
        raise ContractError("a message holds more than text, which turngym's messages do not")
    if message.role == "tool":
        text = f"Error: {message.error.message}" if message.error is not None else message.text
        return Message(role="tool", content=text, tool_call_id=message.tool_call_id, name=message.function)
    if message.role == "assistant":
        calls = tuple(
            ToolCall.of(call.function, json.dumps(call.arguments), id=call.id)
            for call in message.tool_calls or ()
        )
        return Message(role="assistant", content=message.text, tool_calls=calls)
    return Message(role=message.role, content=message.text)


def _extends(messages: Sequence[Message], seen: Sequence[Message]) -> bool:
    """True if a conversation begins with another. The agent's own messages are compared by their place alone:
    Inspect keeps them in a form of its own."""
    return len(messages) >= len(seen) and all(
        one.role == other.role and (one.role == "assistant" or one.text == other.text)
        for one, other in zip(messages, seen, strict=False)
    )


def _output(message: Message) -> ModelOutput:
    calls = [_foreign_call(call) for call in message.tool_calls]
    said = ChatMessageAssistant(content=message.text, tool_calls=calls or None, source="generate")
    return ModelOutput.from_message(said, stop_reason="tool_calls" if calls else "stop")


def _foreign_call(call: ToolCall) -> ForeignCall:
    problem, arguments = call.parse_error, {}
    if problem is None:
        try:
            arguments = json.loads(call.function.arguments or "{}")
            if not isinstance(arguments, dict):
                problem, arguments = "the arguments are not a JSON object", {}
        except ValueError as error:
            problem = f"the arguments are not valid JSON: {error}"
    return ForeignCall(id=call.id, function=call.name, arguments=arguments, parse_error=problem)


def _spec(tool: ToolInfo) -> ToolSpec:
    parameters = tool.parameters.model_dump(mode="json", exclude_none=True)
    return ToolSpec(
        function=FunctionSpec(name=tool.name, description=tool.description, parameters=parameters)
    )
