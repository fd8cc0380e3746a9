"""Group rewards: functions that compare the episodes of one task, such as "be unlike the others" or "be the shortest".

    @reward(group=True, weight=0.2)
    def brevity(trajectories) -> list[float]:
        longest = max(len(t.answer) for t in trajectories) or 1
        return [1 - len(t.answer) / longest for t in trajectories]

An environment plays one episode and cannot compare; it only declares them and hands out what they need. Whoever holds
the group (training, evaluation) computes them once all its episodes are over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from turngym.envs.episode import EpisodeView
from turngym.envs.errors import EnvError, GradingError
from turngym.envs.tasks import Task

if TYPE_CHECKING:
    from turngym.envs.rewards import Reward

VIEW_KEY: Final = "group_view"
"""Where the info of an episode's last step holds its view, if the environment declares group rewards."""


@dataclass(frozen=True, slots=True)
class Group:
    """Finished episodes of one task."""

    env_id: str
    """The environment, for messages."""
    task: Task
    """The task."""
    views: tuple[EpisodeView, ...]
    """What each looked like, in the order of their samples."""


GROUP_SOURCES: Final[dict[str, Callable[[Group], Any]]] = {
    "task": lambda group: group.task,
    "target": lambda group: group.task.target,
    "trajectories": lambda group: group.views,
    "answers": lambda group: tuple(view.answer for view in group.views),
    "rewards": lambda group: tuple(sum(view.paid) for view in group.views),
}
"""What a group reward may name."""


async def group_values(one: Reward, group: Group) -> list[float]:
    """The value of each member, in order.

    Raises:
        InvalidReward: a value is not a finite number in the declared range.
        GradingError: the function failed, or gave another number of values than there are members.
    """
    try:
        values = one.function(**{name: source(group) for name, source in one.needs})
        if one.is_async:
            values = await values
    except EnvError:
        raise
    except Exception as error:
        raise GradingError(
            f"reward {one.name!r} of {group.env_id} failed: {type(error).__name__}: {error}"
        ) from error
    try:
        listed = [] if isinstance(values, (str, bytes)) else list(values)
    except TypeError:
        listed = []
    if len(listed) != len(group.views):
        raise GradingError(
            f"reward {one.name!r} of {group.env_id} returned {values!r}, not {len(group.views)} numbers, one for "
            "each member of the group"
        )
    return [one.checked(value, group.env_id) for value in listed]
