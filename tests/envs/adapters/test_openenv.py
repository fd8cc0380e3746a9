import threading
import time

import pytest
import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from turngym.envs.adapters.openenv import OpenEnv, seeds, text_of
from turngym.envs.errors import InfrastructureError
from turngym.envs.tasks import iterate


class Guess(Action):
    message: str


class Hint(Observation):
    text: str


class Server(Environment):
    """Guess the seed's last digit; the answers count the guesses, so that state shows."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    alive = 0

    def __init__(self):
        super().__init__()
        Server.alive += 1

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.secret, self.count = str((seed or 0) % 10), 0
        return Hint(text="guess")

    def step(self, action, timeout_s=None, **kwargs):
        if action.message == "crash":
            raise RuntimeError("out of paper")
        self.count += 1
        won = action.message == self.secret
        return Hint(text=f"{'right' if won else 'wrong'} after {self.count}", reward=float(won), done=won)

    @property
    def state(self):
        return State(step_count=self.count)

    def close(self):
        Server.alive -= 1


@pytest.fixture(scope="module")
def url():
    app = create_fastapi_app(Server, Guess, Hint, max_concurrent_envs=32)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="websockets-sansio"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def wait_until(held):
    for _ in range(500):
        if held():
            return True
        time.sleep(0.01)
    return False


def test_an_episode_on_a_real_server(url):
    env = OpenEnv(url, system_prompt="One digit.")
    observation, _ = env.reset(options={"task": "seed-17"})
    assert [(m.role, m.text) for m in observation] == [("system", "One digit."), ("user", "guess")]
    observation, reward, over, _, info = env.step("3")
    assert (observation[0].text, reward, over, info["reward_components"]) == ("wrong after 1", 0.0, False, {})
    observation, reward, over, truncated, info = env.step("7")
    assert (observation[0].text, reward, over, truncated) == ("right after 2", 1.0, True, False)
    assert info["metrics"] == {"success": 1.0}
    env.close()
    assert wait_until(lambda: Server.alive <= 1)


def test_a_fork_repeats_the_actions_on_a_connection_of_its_own(url):
    env = OpenEnv(url)
    env.reset(options={"task": "seed-17"})
    env.step("1")
    twin, snapshot = env.fork(), env.snapshot()
    assert env.step("2")[0][0].text == "wrong after 2"
    assert twin.step("7")[0][0].text == "right after 2"
    env.restore(snapshot)
    assert env.step("7")[0][0].text == "right after 2"
    for one in (env, twin):
        one.close()


def test_an_action_that_is_not_understood_is_news_and_a_crash_is_a_failure(url):
    env = OpenEnv(url, to_action=lambda message: {"nonsense": message.text})
    env.reset(seed=0)
    observation, reward, over, *_ = env.step("7")
    assert ("not understood" in observation[0].text, reward, over) == (True, 0.0, False)
    env.close()
    env = OpenEnv(url)
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="out of paper"):
        env.step("crash")
    env.close()


def test_a_server_that_is_not_there_is_a_failure_of_infrastructure():
    env = OpenEnv("http://127.0.0.1:9", timeout_s=2.0)
    with pytest.raises(InfrastructureError, match="failed at reset"):
        env.reset(seed=0)
    env.close()


def test_max_turns_is_a_rule(url):
    env = OpenEnv(url, max_turns=1)
    env.reset(options={"task": "seed-17"})
    assert env.step("1")[1:4] == (0.0, True, False)
    env.close()


def test_seeds_are_in_one_split_and_texts_are_found():
    tasks = seeds(train=30, test=10)
    ids = [[task.metadata["seed"] for task in iterate(tasks, split)] for split in ("train", "test")]
    assert ids == [list(range(30)), list(range(30, 40))]
    assert text_of({"text": "a", "count": 3, "empty": ""}) == "a"
    assert text_of({"b": "x", "a": "ü"}) == '{"a": "ü", "b": "x"}'
