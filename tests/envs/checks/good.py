"""An environment that keeps every law, to be spoilt in one way at a time; and one with tools."""

from __future__ import annotations

from turngym.envs import Env, ToolCall, ToolEnv, assistant, check, questions, register, reward, tool, user


class Good(Env):
    """Say the word."""

    tasks = questions(train={"First?": "reddish", "Second?": "bluish"}, test={"Third?": "greenish"})
    reward_range = (0.0, 1.0)

    def reset(self, *, seed=None, options=None):
        self.turn = 0
        return super().reset(seed=seed, options=options)

    def right(self, text):
        return text == self.task.target

    def step(self, action):
        self.turn += 1
        right = self.right(action.text)
        over = right or self.turn == 3
        info = {"metrics": {"success": float(right)}} if over else {}
        return (user("no"),), float(right), over, False, info

    @staticmethod
    def expert(task, history, rng):
        return assistant(task.target)


class Shelf(ToolEnv):
    """Find the word on a shelf, and say it."""

    tasks = Good.tasks
    max_turns = 4

    @tool
    def look(self, shelf: int) -> str:
        """What lies on a shelf."""
        return {7: "reddish bluish greenish", 8: "nothing"}[shelf]

    @reward
    def correct(self, answer, target) -> float:
        return float(answer == target)

    @staticmethod
    def expert(task, history, rng):
        if history[-1].role == "tool":
            return assistant(task.target)
        return assistant(None, ToolCall.of("look", {"shelf": 7}))


def failures(cls, *, tasks=2, episodes=9, nondeterministic=False, **kwargs) -> dict[str, str]:
    """The laws that a class breaks, with the reasons. The registration is the test's to undo."""
    id = f"t/{cls.__name__}-v0"
    register(id, cls, kwargs=kwargs, nondeterministic=nondeterministic)
    return {
        result.name: result.detail for result in check(id, tasks=tasks, episodes=episodes) if not result.ok
    }
