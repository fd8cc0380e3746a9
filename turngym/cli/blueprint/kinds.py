"""The environment module of each kind of package."""

from __future__ import annotations

from typing import Final

_TOOL: Final = '''\
"""$cls: look up how many pieces of an article are left, and say so. Make it yours."""

from typing import ClassVar

from turngym.envs import ToolCall, ToolEnv, assistant, questions, reward, tool

STOCK = {f"A{n}": n * 37 % 100 for n in range(1000)}
ASKED = [(f"How many {article} are left?", left) for article, left in STOCK.items()]


def expert(task, history, rng):
    """Look the article up, then repeat what the tool said."""
    if history[-1].role == "tool":
        return assistant(history[-1].text)
    article = task.prompt[0].text.split()[2]
    return assistant(None, ToolCall.of("look_up", {"article": article}))


def sloppy(task, history, rng):
    """Like the expert, but one time in five it looks up another article. To learn from, and to become better than."""
    if history[-1].role != "tool" and rng.random() < 0.2:
        return assistant(None, ToolCall.of("look_up", {"article": f"A{rng.integers(1000)}"}))
    return expert(task, history, rng)


class $cls(ToolEnv):
    """Look up how many pieces of an article are left."""

    tasks = questions(train=dict(ASKED[:900]), test=dict(ASKED[900:]))
    system_prompt = "Look the article up. Then give only the number."
    max_turns = 4
    policies: ClassVar = {"expert": expert, "sloppy": sloppy}

    @tool
    def look_up(self, article: str) -> int:
        """Pieces of an article in stock."""
        return STOCK[article]

    @reward
    def correct(self, answer: str, target: int) -> float:
        """1 for exactly the number."""
        return float(answer.strip() == str(target))
'''

_TEXT: Final = '''\
"""$cls: sort four digits; a second try pays half. Make it yours."""

from typing import ClassVar

from turngym.envs import Env, GeneratedTasks, Task, assistant, user


def random_task(rng):
    """Four different digits; the task set gives it an id and a split."""
    digits = [str(digit) for digit in rng.permutation(10)[:4]]
    return Task(id="digits", prompt=(user(f"Sort {' '.join(digits)}"),), target=" ".join(sorted(digits)))


def expert(task, history, rng):
    """The answer."""
    return assistant(task.target)


def sloppy(task, history, rng):
    """Like the expert, but one time in five it swaps two digits. To learn from, and to become better than."""
    digits = task.target.split()
    if rng.random() < 0.2:
        place = int(rng.integers(3))
        digits[place], digits[place + 1] = digits[place + 1], digits[place]
    return assistant(" ".join(digits))


class $cls(Env):
    """Sort four digits in two tries."""

    reward_range = (0.0, 1.0)
    max_turns = 2
    policies: ClassVar = {"expert": expert, "sloppy": sloppy}

    def __init__(self, *, split=None):
        tasks = GeneratedTasks("$name", random_task, sizes={"train": None, "test": 500})
        super().__init__(tasks=tasks, split=split)

    def reset(self, *, seed=None, options=None):
        """No try was made yet."""
        self.tries = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        """Compare the text with the target: nothing but the digits counts."""
        self.tries += 1
        right = action.text.strip() == self.task.target
        if not right and self.tries < self.max_turns:
            return (user("Not sorted. Try again."),), 0.0, False, False, {}
        paid = float(right) / self.tries
        metrics = {"success": float(right), "tries": float(self.tries)}
        return (), paid, True, False, {"reward_components": {"sorted": paid}, "metrics": metrics}
'''

KINDS: Final[dict[str, str]] = {"tool": _TOOL, "text": _TEXT}
"""The module of a `ToolEnv`, and of an `Env` with a step of its own."""
