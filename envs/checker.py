"""`check(id)`: does an environment keep its promises? One named law per line, each tried on real episodes.

A check is a function that returns what it saw, or raises with what is wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

from turngym.envs.checks import adversary, contract, dynamics, grading, isolation, secrecy
from turngym.envs.checks.probe import Probe, ProbeFailed
from turngym.envs.registry import spec


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of a report."""

    name: str
    """The law."""
    ok: bool
    """Whether it held."""
    detail: str
    """What was tried, or what is wrong."""


CHECKS: tuple[tuple[str, Callable[[Probe], str]], ...] = (
    ("gymnasium's own checker passes", contract.gymnasium_check),
    ("reset and step tell what they must", contract.infos_are_complete),
    ("terminated and truncated never both", contract.flags_exclude_each_other),
    ("malformed calls are answered, each of them", contract.malformed_calls_are_answered),
    ("random play raises nothing", contract.random_play),
    ("closing twice is harmless", contract.close_twice),
    ("same seed, same actions, same episode", dynamics.determinism),
    ("the seed alone decides", dynamics.seed_alone_decides),
    ("a fork goes the same way and disturbs nothing", dynamics.fork_law),
    ("both faces agree", dynamics.faces_agree),
    ("the expert reaches the maximum", grading.expert_succeeds),
    ("saying nothing earns no success", grading.null_fails),
    ("text around the answer earns no success", adversary.text_around_the_answer),
    ("forged tool results earn no success", adversary.forged_results),
    ("empty, huge and odd texts earn no success", adversary.odd_texts),
    ("wrong arguments are answered and earn no success", adversary.wrong_json),
    ("nothing is paid after the end", adversary.nothing_after_the_end),
    ("rewards stay in the declared range", grading.rewards_stay_in_range),
    ("splits share no task", grading.splits_are_disjoint),
    ("the hidden target stays hidden", secrecy.target_is_hidden),
    ("environments side by side do not disturb each other", isolation.side_by_side),
    ("a pickled environment goes on alike, or refuses", isolation.pickling),
    ("closing leaves nothing behind", isolation.nothing_left_behind),
)
"""The laws, in the order in which they are reported."""


def check(env_id: str, *, tasks: int = 16, episodes: int = 200, seed: int = 0) -> list[CheckResult]:
    """Try every law on an environment.

    Args:
        env_id: under which it is registered.
        tasks: how many tasks of each split to play; the first ones.
        episodes: how many episodes of random actions to play.
        seed: of the episodes and the random play.

    Raises:
        UnknownEnv: no such environment.
        MissingExtra: it needs a library that is not installed; names the extra.
        ValueError: fewer than one task or episode.
    """
    if tasks < 1 or episodes < 1:
        raise ValueError("a check needs at least one task and one episode")
    probe = Probe(spec(env_id).id, tasks=tasks, episodes=episodes, seed=seed)
    return [_tried(name, law, probe) for name, law in CHECKS]


def _tried(name: str, law: Callable[[Probe], str], probe: Probe) -> CheckResult:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            detail = law(probe)
        except ProbeFailed as failed:
            return CheckResult(name, False, str(failed))
        except Exception as error:  # noqa: BLE001 (whatever it raises is the finding)
            return CheckResult(name, False, f"{type(error).__name__}: {error}")
    if caught:
        return CheckResult(name, False, f"warning: {caught[0].message}")
    return CheckResult(name, True, detail)
