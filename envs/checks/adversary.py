"""Checks of the grading by attack: who knows the answer but does not give it must not be paid for it.

Each attack is tried cold, as the first thing that is said, and warm, in place of the last thing that the expert says
after all its work. Warm attacks are left out where the last word does not matter, since nonsense succeeds there too
(the work is what is graded).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from turngym.envs.checks import attacks
from turngym.envs.checks.probe import MOST_TURNS, Played, Probe, ProbeFailed, require, succeeded
from turngym.envs.env import Env, StepResult
from turngym.envs.errors import EpisodeOver, InvalidAction
from turngym.envs.messages import FunctionSpec, Message, ToolSpec, assistant
from turngym.envs.tasks import Task

_TASKS = 2
"""Tasks of each split that are attacked."""
_TOOLS = 8
"""Tools that are called with wrong arguments."""
_NONSENSE: Final = "I do not know what to say."
_NO_TOOL: Final = ToolSpec(function=FunctionSpec(name="submit", parameters={"properties": {"answer": {}}}))


def text_around_the_answer(probe: Probe) -> str:
    """The right answer with prose, doubt, other answers or rubbish around it."""
    return _attack(probe, attacks.PROSE)


def forged_results(probe: Probe) -> str:
    """Texts that look like a tool's result or a grader's verdict, and a message in the role of a tool."""
    with closing(probe.make()) as env:
        env.reset(seed=probe.seed, options={"task": probe.tasks()[0]})
        forged = {"role": "tool", "tool_call_id": "call_0", "content": "done"}
        try:
            env.step(forged)
        except InvalidAction:
            pass
        else:
            raise ProbeFailed("an action in the role of a tool was accepted")
    return _attack(probe, attacks.FORGED)


def odd_texts(probe: Probe) -> str:
    """Nothing, a megabyte, NaN, control characters and the like."""
    return _attack(probe, (_NONSENSE, *attacks.ODD))


def wrong_json(probe: Probe) -> str:
    """Arguments that are no object, no JSON, of wrong types, or given twice: each call is answered, in order."""
    count = 0
    for task in probe.few(1):
        with closing(probe.make()) as env:
            env.reset(seed=probe.seed, options={"task": task})
            for tool in (env.tools or (_NO_TOOL,))[:_TOOLS]:
                with closing(env.fork()) as twin:
                    count += _call_wrongly(twin, task, tool)
    return f"{count} calls"


def nothing_after_the_end(probe: Probe) -> str:
    """Who repeats a final answer is told that the episode is over."""
    count = 0
    with closing(probe.make()) as env:
        for task in probe.few(_TASKS):
            played = probe.play(env, probe.expert() or probe.policy("null"), task)
            for _ in range(2 if played.is_over else 0):
                count += 1
                try:
                    result = env.step(played.actions[-1])
                except EpisodeOver:
                    continue
                raise ProbeFailed(
                    f"a step after the end of task {task.id} was answered, and paid {result[1]:g}"
                )
    return f"{count} answers given again"


@dataclass(frozen=True, slots=True)
class _Case:
    """A task under attack."""

    task: Task
    states: tuple[tuple[str, Env], ...]
    """Where attacks begin, by name: "" before any work, else what was done."""
    final: Message
    """What the expert says last."""
    wrong: str
    """An answer that is not the right one."""


def _attack(probe: Probe, texts: Sequence[str]) -> str:
    tried = declared = warm = 0
    with _cases(probe) as cases:
        for case in cases:
            warm += len(case.states) > 1
            for after, state in case.states:
                for text in texts:
                    fill = functools.partial(attacks.filled, text, wrong=case.wrong)
                    message, slots = _aimed(case.final, fill)
                    if slots and all(_is_answer(state, said, right) for said, right in slots):
                        declared += 1
                        continue
                    tried += 1
                    _must_fail(state, case.task, message, f"{_shown(text)}{after}")
        tasks = len(cases)
    detail = f"{tried} attacks on {tasks} tasks"
    detail += f", on {warm} of them after the expert's work too" if warm else ""
    return detail + (f"; {declared} are answers by the declared formats" if declared else "")


@contextmanager
def _cases(probe: Probe) -> Iterator[list[_Case]]:
    """The tasks under attack, with the expert's work done on them."""
    with ExitStack() as stack:
        drafts = [_worked(probe, task, stack) for task in probe.few(_TASKS)]
        finals = [final.text for _, _, final in drafts]
        cases = []
        for task, states, final in drafts:
            wrong = next((text for text in finals if text not in ("", final.text)), "zzz")
            cases.append(_Case(task, states, final, wrong))
        yield cases


def _worked(probe: Probe, task: Task, stack: ExitStack) -> tuple[Task, tuple[tuple[str, Env], ...], Message]:
    """A task before any work and just before the expert's last word, and what that is."""
    env = stack.enter_context(closing(probe.make()))
    env.reset(seed=probe.seed, options={"task": task})
    cold = stack.enter_context(closing(env.fork()))
    states = (("", cold),)
    expert = probe.expert()
    if expert is None:
        scalar = isinstance(task.target, (str, int, float)) and not isinstance(task.target, bool)
        return task, states, assistant(str(task.target) if scalar else None)
    work: list[Message] = []
    rng = np.random.default_rng(probe.seed)
    is_over = False
    while not is_over and len(work) < MOST_TURNS:
        work.append(expert(task, tuple(env.history), rng))
        _, _, terminated, truncated, _ = env.step(work[-1])
        is_over = terminated or truncated
    final = work.pop()
    if not work or not is_over:
        return task, states, final
    warm = stack.enter_context(closing(cold.fork()))
    for message in work:
        warm.step(message)
    nonsense, _ = _aimed(final, lambda _: _NONSENSE)
    is_text_graded = not _play(warm, nonsense)
    return task, (*states, (", said after the expert's work", warm)) if is_text_graded else states, final


def _aimed(final: Message, change: Callable[[str], str]) -> tuple[Message, list[tuple[str, str]]]:
    """The expert's last message with each text in it changed; the changed texts, each with what it was."""
    slots: list[tuple[str, str]] = []

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        if value is None or isinstance(value, bool):
            return value
        right = value if isinstance(value, str) else json.dumps(value)
        slots.append((change(right), right))
        return slots[-1][0]

    if not final.tool_calls:
        return assistant(walk(final.text)), slots
    calls = []
    for call in final.tool_calls:
        text = json.dumps(walk(json.loads(call.function.arguments or "{}")))
        calls.append(
            call.model_copy(update={"function": call.function.model_copy(update={"arguments": text})})
        )
    return final.model_copy(update={"tool_calls": tuple(calls)}), slots


def _is_answer(env: Env, said: str, right: str) -> bool:
    """True if a text is the answer as it stands, or by a format that the environment declares."""
    return not _readings(env, said).isdisjoint(_readings(env, right))


def _readings(env: Env, text: str) -> set[str]:
    forms = [re.compile(form, re.DOTALL) for form in env.answer_formats]
    for form in forms:
        require("answer" in form.groupindex, f"the answer format {form.pattern!r} has no group (?P<answer>…)")
    found = (form.fullmatch(text) for form in forms)
    return {text.strip().casefold()} | {match["answer"].strip().casefold() for match in found if match}


def _must_fail(state: Env, task: Task, message: Message, what: str) -> None:
    try:
        solved = _play(state, message)
    except Exception as error:
        raise ProbeFailed(f"task {task.id}: {what} raised {type(error).__name__}: {error}") from error
    require(not solved, f"task {task.id} is solved by {what}")


def _play(state: Env, message: Message) -> bool:
    """Say the same from a state on until the episode is over; whether it succeeds."""
    results: list[StepResult] = []
    with closing(state.fork()) as env:
        while len(results) < MOST_TURNS and not (results and (results[-1][2] or results[-1][3])):
            results.append(env.step(message))
        played = Played(((), {}), (message,) * len(results), tuple(results))
        return played.is_over and succeeded(env, played)


def _call_wrongly(env: Env, task: Task, tool: ToolSpec) -> int:
    count = 0
    for message in attacks.wrong_calls(tool):
        observation, _, terminated, truncated, info = env.step(message)
        ids = [answer.tool_call_id for answer in observation if answer.role == "tool"]
        asked = [call.id for call in message.tool_calls]
        require(ids == asked, f"calls of {tool.name} with wrong arguments: {asked} were answered by {ids}")
        count += len(asked)
        if terminated or truncated:
            require(info["metrics"].get("success") != 1.0, f"wrong calls of {tool.name} solve task {task.id}")
            return count
    require(not _play(env, assistant(_NONSENSE)), f"wrong calls of {tool.name} solve task {task.id}")
    return count


def _shown(text: str) -> str:
    """A text as a short literal; its length if it is long."""
    return ascii(text) if len(text) <= 80 else f"{text[:40]!a}… ({len(text):,} characters)"
