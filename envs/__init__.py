"""Tasks, tools, rewards, dynamics and their registration.

make("turngym/Calculator-v0")        an environment by id
class MyEnv(ToolEnv): …              tools and rewards as functions; `Env` for everything else
check("my/Env-v0")                   does it keep its promises?
"""

if not __name__.startswith("turngym."):
    raise ImportError(
        f"import turngym.{__name__}, not {__name__}: the bare name may belong to another distribution"
    )

from turngym.envs import builtin as builtin
from turngym.envs import errors as errors
from turngym.envs.checker import CheckResult, check
from turngym.envs.completer import Completer
from turngym.envs.env import Env, Observation, ResetResult, Snapshot, StepResult
from turngym.envs.episode import EpisodeView, ToolUse
from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant, system, user
from turngym.envs.policies import ReferencePolicy
from turngym.envs.questions import questions
from turngym.envs.registry import EnvListing, list_envs, make, reference_policy, register, spec
from turngym.envs.rewards import Reward, reward
from turngym.envs.spaces import ActionSpace, MessagesSpace
from turngym.envs.tasks import GeneratedTasks, ListTasks, Task, TaskLimits, TaskSet
from turngym.envs.tool_env import ToolEnv
from turngym.envs.tools import Tool, tool

__all__ = [
    "ActionSpace",
    "CheckResult",
    "Completer",
    "Env",
    "EnvListing",
    "EpisodeView",
    "GeneratedTasks",
    "ListTasks",
    "Message",
    "MessagesSpace",
    "Observation",
    "ReferencePolicy",
    "ResetResult",
    "Reward",
    "Snapshot",
    "StepResult",
    "Task",
    "TaskLimits",
    "TaskSet",
    "Tool",
    "ToolCall",
    "ToolEnv",
    "ToolSpec",
    "ToolUse",
    "assistant",
    "check",
    "errors",
    "list_envs",
    "make",
    "questions",
    "reference_policy",
    "register",
    "reward",
    "spec",
    "system",
    "tool",
    "user",
]
