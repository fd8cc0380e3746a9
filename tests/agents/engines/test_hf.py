from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
import torch

from turngym.agents.engines.hf import HFEngine
from turngym.agents.engines.kv_cache import SlotCache
from turngym.agents.errors import EngineError, SamplingError
from turngym.agents.protocols import Generation

MAX_CONTEXT = 200


def make_engine(model: Any, **options: Any) -> HFEngine:
    return HFEngine(model, **{"max_context": MAX_CONTEXT, "slots": 8, **options})


async def play(
    engine: HFEngine,
    request_of: Any,
    session: str,
    *,
    turns: int = 3,
    base: tuple[int, ...] = (),
    **sampling: Any,
) -> list[tuple[Any, Generation]]:
    """An episode of random contexts; its lengths depend on its name alone."""
    rng = random.Random(session)
    context, offset, record = [*base, *random_ids(rng, rng.randint(1, 12))], 0, []
    for _ in range(turns):
        request = request_of(
            context, session, offset=offset, stop_ids=(3, 4), max_tokens=rng.randint(1, 10), **sampling
        )
        generation = await engine.generate(request)
        record.append((request, generation))
        context = [*context, *generation.ids, *random_ids(rng, rng.randint(0, 9))]
        offset += len(generation.ids)
        for _ in range(rng.randint(0, 3)):
            await asyncio.sleep(0)
    await engine.release(session)
    return record


def random_ids(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(5, 40) for _ in range(count)]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize(("slots", "prefill_tokens"), [(32, 4096), (3, 5), (1, 64)])
def test_equals_a_naive_reference_without_cache(
    model: Any,
    request_of: Any,
    naive: Any,
    same: Any,
    together: Any,
    temperature: float,
    slots: int,
    prefill_tokens: int,
) -> None:
    engine = make_engine(model, slots=slots, prefill_tokens=prefill_tokens)
    assert engine.why_not_cached is None
    base = tuple(random_ids(random.Random(0), 20))
    episodes = together(
        *(
            play(engine, request_of, f"episode {n}", temperature=temperature, base=base[: 2 * n])
            for n in range(12)
        )
    )
    turns = [turn for episode in episodes for turn in episode]
    assert len(turns) == 36
    assert {generation.finish_reason for _, generation in turns} == {"stop", "length"}
    for request, generation in turns:
        same(generation, naive(model, request))


def test_law_09_company_and_order_do_not_change_what_is_sampled(
    model: Any, request_of: Any, together: Any
) -> None:
    names = [f"episode {n}" for n in range(10)]
    alone = {
        name: [g.ids for _, g in together(play(make_engine(model), request_of, name))[0]] for name in names
    }
    for order in (names, names[::-1]):
        engine = make_engine(model, slots=4)
        played = together(*(play(engine, request_of, name) for name in order))
        for name, episode in zip(order, played, strict=True):
            assert [g.ids for _, g in episode] == alone[name]


def test_the_same_requests_in_the_same_order_give_the_same_bits(
    model: Any, request_of: Any, together: Any
) -> None:
    def run() -> list[Any]:
        engine = make_engine(model, slots=4)
        return together(*(play(engine, request_of, f"episode {n}") for n in range(9)))

    assert run() == run()


def test_a_turn_computes_only_what_is_new(model: Any, request_of: Any, together: Any) -> None:
    engine = make_engine(model)

    async def two_turns() -> int:
        first = await engine.generate(request_of(range(5, 25), max_tokens=6))
        before = engine.stats.computed_tokens
        assert before == 20 + 5, "the last sampled token is not run through the model"
        context = [*range(5, 25), *first.ids, 30, 31, 32]
        await engine.generate(request_of(context, offset=6, max_tokens=1))
        return engine.stats.computed_tokens - before

    assert together(two_turns()) == [1 + 3]


def test_a_context_that_differs_in_the_middle_is_recomputed_from_there(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model)

    async def rewritten() -> None:
        await engine.generate(request_of(range(5, 25)))
        request = request_of([*range(5, 15), 38, *range(16, 25)], offset=8)
        before = engine.stats.computed_tokens
        same(await engine.generate(request), naive(model, request))
        assert engine.stats.computed_tokens - before == 10 + 7

    assert together(rewritten()) == [None]


def test_the_samples_of_a_group_compute_their_prompt_once(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model, slots=64)
    prompts = [[*range(5, 35), 5 + task] for task in range(3)]
    requests = [
        request_of(prompt, f"{task} {n}", max_tokens=1)
        for task, prompt in enumerate(prompts)
        for n in range(8)
    ]
    results = together(*(engine.generate(request) for request in requests))
    for request, generation in zip(requests, results, strict=True):
        same(generation, naive(model, request))
    # The first prompt whole; of every other context, the last token alone.
    assert engine.stats.computed_tokens == 31 + 23
    assert engine.stats.prompt_tokens == 24 * 31


def test_a_beginning_that_another_session_holds_is_copied(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model)
    held = request_of(range(5, 30), "first", max_tokens=1)
    ids = together(engine.generate(held))[0].ids
    before = engine.stats.computed_tokens
    request = request_of([*range(5, 30), 6, 7], "second")
    again = request_of([*range(5, 30), *ids, 8], "first", offset=1, max_tokens=1)
    for wanted in (request, again):
        same(together(engine.generate(wanted))[0], naive(model, wanted))
    assert engine.stats.computed_tokens - before == (2 + 7) + 2


def test_a_released_episode_leaves_its_beginning_to_others(
    model: Any, request_of: Any, together: Any
) -> None:
    engine = make_engine(model)
    together(engine.generate(request_of(range(5, 30), "first", max_tokens=1)))
    together(engine.release("first"))
    before = engine.stats.computed_tokens
    together(engine.generate(request_of([*range(5, 30), 6, 7], "second", max_tokens=1)))
    assert engine.stats.computed_tokens - before == 2


def test_a_forward_pass_is_no_larger_than_allowed(
    model: Any, request_of: Any, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, embed = [], torch.nn.functional.embedding

    def measured(ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        sizes.append(ids.numel())
        return embed(ids, weight)

    engine = make_engine(model, prefill_tokens=32)
    monkeypatch.setattr(torch.nn.functional, "embedding", measured)
    requests = [request_of([5 + n, *range(5, 15 + 3 * n)], f"s{n}") for n in range(9)]
    requests.append(request_of([4, *range(5, 40)], "long"))
    together(*(engine.generate(request) for request in requests))
    assert max(sizes) <= 32


def test_sessions_without_a_slot_wait_and_idle_ones_make_room(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model, slots=2)

    async def evicted() -> None:
        first = await engine.generate(request_of(range(5, 15), "a"))
        await asyncio.gather(*(engine.generate(request_of(range(20, 30 + n), f"b{n}")) for n in range(2)))
        before = engine.stats.computed_tokens
        request = request_of([*range(5, 15), *first.ids], "a", offset=8, max_tokens=1)
        same(await engine.generate(request), naive(model, request))
        assert engine.stats.computed_tokens - before == 18

    assert together(evicted()) == [None]


def test_a_long_tail_is_moved_together(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(model, slots=16)
    requests = [
        request_of([5 + n, 6, 7], f"s{n}", max_tokens=40 if n in (3, 9, 15) else 2) for n in range(16)
    ]
    swaps, swap = [], SlotCache.swap
    monkeypatch.setattr(SlotCache, "swap", lambda cache, *rows: (swaps.append(rows[:2]), swap(cache, *rows)))
    results = together(*(engine.generate(request) for request in requests))
    assert swaps == [(3, 0), (9, 1), (15, 2)]
    for request, generation in zip(requests, results, strict=True):
        same(generation, naive(model, request))
    again = [
        request_of([*r.prompt_ids, *g.ids, 9], r.session, offset=len(g.ids))
        for r, g in zip(requests, results, strict=True)
    ]
    before = engine.stats.computed_tokens
    for request, generation in zip(again, together(*map(engine.generate, again)), strict=True):
        same(generation, naive(model, request))
    assert engine.stats.computed_tokens - before == 16 * (2 + 7), "every session kept its cache"


@pytest.mark.parametrize(("running", "newcomers", "steps"), [(8, 1, 8), (8, 2, 1), (4, 1, 1)])
def test_newcomers_are_collected_but_not_for_long(
    model: Any, request_of: Any, together: Any, running: int, newcomers: int, steps: int
) -> None:
    engine = make_engine(model, slots=12)

    async def joined() -> int:
        tasks = [
            asyncio.create_task(engine.generate(request_of([5 + n], f"s{n}", max_tokens=60)))
            for n in range(running)
        ]
        while engine.stats.sampled_tokens < running:
            await asyncio.sleep(0)
        before = engine.stats.sampled_tokens
        await asyncio.gather(
            *(engine.generate(request_of([30, 31 + n], f"new{n}", max_tokens=1)) for n in range(newcomers))
        )
        sampled = engine.stats.sampled_tokens - before - newcomers
        await asyncio.gather(*tasks)
        return sampled // running

    assert together(joined()) == [steps]


def test_requests_of_one_session_run_one_after_the_other(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model)
    requests = [request_of([5, 6, 7 + n], offset=n) for n in range(3)]
    for request, generation in zip(requests, together(*map(engine.generate, requests)), strict=True):
        same(generation, naive(model, request))


@pytest.mark.parametrize("stop_ids", [(3, 4, 17), (0,), (39, 39)])
def test_every_stop_id_is_honoured_and_part_of_the_action(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any, stop_ids: tuple[int, ...]
) -> None:
    engine = make_engine(model, slots=20)
    requests = [request_of([5, 6, 7], f"s{n}", stop_ids=stop_ids, max_tokens=60) for n in range(20)]
    results = together(*(engine.generate(request) for request in requests))
    for request, generation in zip(requests, results, strict=True):
        same(generation, naive(model, request))
        assert not set(generation.ids[:-1]) & set(stop_ids)
    assert {g.ids[-1] for g in results if g.finish_reason == "stop"} == set(stop_ids)


def test_a_pad_id_equal_to_the_stop_id_hides_nothing(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    model.config.pad_token_id = model.config.eos_token_id = 3
    model.generation_config.pad_token_id = 3
    engine = make_engine(model)
    requests = [request_of([5, 3, 6, 3][: n + 1], f"s{n}", stop_ids=(3,), max_tokens=40) for n in range(4)]
    for request, generation in zip(requests, together(*map(engine.generate, requests)), strict=True):
        same(generation, naive(model, request))


def test_cancelling_frees_the_slot_and_disturbs_nobody(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model, slots=2)

    async def cancelled() -> None:
        tasks = [
            asyncio.create_task(engine.generate(request_of([5, 6 + n], f"s{n}", max_tokens=100)))
            for n in range(3)
        ]
        for _ in range(30):
            await asyncio.sleep(0)
        tasks[0].cancel()  # it is running
        tasks[2].cancel()  # it is waiting for a slot
        request = request_of([5, 6, 9], "s0")
        same(await engine.generate(request), naive(model, request))
        assert not tasks[1].done(), "the cancelled one's slot was used"
        same(await tasks[1], naive(model, request_of([5, 7], "s1", max_tokens=100)))
        assert [task.cancelled() for task in tasks] == [True, False, True]

    assert together(cancelled()) == [None]


def test_a_failing_model_fails_its_requests_and_stays_usable(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(model, slots=2)
    attention, calls = torch.nn.functional.scaled_dot_product_attention, 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise MemoryError("no more memory")
        return attention(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", failing)
    requests = [request_of([5, 6 + n], f"s{n}") for n in range(4)]
    for error in together(*(engine.generate(request) for request in requests)):
        assert isinstance(error, EngineError)
        assert "MemoryError: no more memory" in str(error)
    for request, generation in zip(requests, together(*map(engine.generate, requests)), strict=True):
        same(generation, naive(model, request))


def test_nothing_is_reused_after_a_failure(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(model)
    swap = SlotCache.swap

    def interrupted(cache: SlotCache, *rows: int) -> None:
        swap(cache, *rows)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(SlotCache, "swap", interrupted)
        requests = [request_of([5, 6 + n], f"s{n}", max_tokens=1 + 9 * (n == 3)) for n in range(4)]
        results = together(*(engine.generate(request) for request in requests))
    assert [isinstance(result, EngineError) for result in results] == [False, False, False, True]
    again = [
        request_of([*r.prompt_ids, *g.ids, 9], r.session, offset=1)
        for r, g in zip(requests[:3], results[:3], strict=True)
    ]
    for request, generation in zip(again, together(*map(engine.generate, again)), strict=True):
        same(generation, naive(model, request))


def test_diverged_weights_fail_clearly_and_leave_nothing_behind(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model)
    weight = model.model.layers[0].self_attn.v_proj.weight
    with torch.no_grad():
        healthy = weight.clone()
        weight[0, 0] = torch.nan
    error = together(engine.generate(request_of(range(5, 15))))[0]
    assert isinstance(error, EngineError)
    assert "not finite" in str(error)
    with torch.no_grad():
        weight.copy_(healthy)
    requests = [request_of([5, 6, 8]), request_of(range(10, 35), "longer")]
    for request, generation in zip(requests, together(*map(engine.generate, requests)), strict=True):
        same(generation, naive(model, request))


def test_the_context_limit(model: Any, request_of: Any, together: Any) -> None:
    engine = make_engine(model, max_context=20)
    assert engine.max_context == 20
    cut, full, over = together(
        engine.generate(request_of(range(5, 22), "cut", max_tokens=50)),
        engine.generate(request_of(range(5, 25), "full")),
        engine.generate(request_of(range(5, 26), "over")),
    )
    assert len(cut.ids) == 3
    assert cut.finish_reason == "length"
    assert full == Generation((), (), "length", 0)
    assert isinstance(over, EngineError)
    assert "21 tokens" in str(over)
    assert "20" in str(over)
    assert make_engine(model, max_context=10_000).max_context == 256, "the model has no more positions"


@pytest.mark.parametrize("prompt", [[], [40], [-1]])
def test_contexts_that_the_model_cannot_take_are_refused_alone(
    model: Any, request_of: Any, together: Any, prompt: list[int]
) -> None:
    engine = make_engine(model)
    bad, good = together(engine.generate(request_of(prompt, "bad")), engine.generate(request_of([5], "good")))
    assert isinstance(bad, EngineError)
    assert len(good.ids) == 8


@pytest.mark.parametrize(
    "sampling",
    [{"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"top_k": -1}, {"max_tokens": -1}],
)
def test_senseless_sampling_is_refused(
    model: Any, request_of: Any, together: Any, sampling: dict[str, Any]
) -> None:
    error = together(make_engine(model).generate(request_of([5], **sampling)))[0]
    assert isinstance(error, SamplingError)
    assert next(iter(sampling)) in str(error)


def test_weights_changed_in_place(model: Any, request_of: Any, naive: Any, same: Any, together: Any) -> None:
    engine = make_engine(model, policy_version=4)
    request = request_of(range(5, 20))
    assert together(engine.generate(request))[0].policy_version == 4
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    together(engine.update_weights(None, policy_version=5))
    generation = together(engine.generate(request))[0]
    assert generation.policy_version == engine.policy_version == 5
    same(generation, naive(model, request))


def test_weights_from_a_state_dict(model: Any, request_of: Any, naive: Any, same: Any, together: Any) -> None:
    engine = make_engine(model)
    weights = {name: value * 1.1 for name, value in model.state_dict().items()}
    assert together(engine.update_weights(weights, policy_version=1)) == [None]
    request = request_of(range(5, 20))
    same(together(engine.generate(request))[0], naive(model, request))
    assert torch.equal(model.state_dict()["lm_head.weight"], weights["lm_head.weight"])
    error = together(engine.update_weights({"x": torch.zeros(1)}, policy_version=2))[0]
    assert isinstance(error, EngineError)
    assert engine.policy_version == 1


def test_a_running_request_goes_on_with_new_weights(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model)
    old = naive(model, request_of([5, 6, 7], max_tokens=40))

    async def updated() -> None:
        task = asyncio.create_task(engine.generate(request_of([5, 6, 7], max_tokens=40)))
        while engine.stats.sampled_tokens < 10:
            await asyncio.sleep(0)
        done = engine.stats.sampled_tokens
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.2)
        await engine.update_weights(None, policy_version=1)
        generation = await task
        assert generation.policy_version == 1
        assert generation.ids[:done] == old.ids[:done]
        rest = request_of([5, 6, 7, *generation.ids[:done]], offset=done, max_tokens=40 - done)
        new = naive(model, rest)
        assert generation.ids[done:] == new.ids
        np.testing.assert_allclose(generation.logprobs, old.logprobs[:done] + new.logprobs, atol=1e-4)

    assert together(updated()) == [None]


def test_training_mode_is_left_as_it_was_and_dropout_is_off(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    model.model.norm.register_forward_hook(lambda *_: None)  # so that its own forward pass is used
    request = request_of(range(5, 15))
    want = naive(model, request)
    model.train()
    model.model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    engine = make_engine(model)
    assert [module.training for module in model.modules()] == modes

    async def trained_meanwhile() -> Generation:
        start = engine.stats.sampled_tokens
        task = asyncio.create_task(engine.generate(request))
        while engine.stats.sampled_tokens < start + 3:
            await asyncio.sleep(0)
        model.train()
        return await task

    same(together(engine.generate(request))[0], want)
    assert [module.training for module in model.modules()] == modes
    same(together(trained_meanwhile())[0], want)
    assert model.training


def test_no_global_random_state_is_used(model: Any, request_of: Any, together: Any) -> None:
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy_state = np.random.get_state()[1].tobytes()  # type: ignore[index, union-attr]
    together(make_engine(model).generate(request_of([5, 6])))
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    assert np.random.get_state()[1].tobytes() == numpy_state  # type: ignore[index, union-attr]


def test_closing(model: Any, request_of: Any, together: Any) -> None:
    engine = make_engine(model)

    async def closed() -> None:
        task = asyncio.create_task(engine.generate(request_of([5], max_tokens=100)))
        for _ in range(20):
            await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await task
        with pytest.raises(EngineError, match="closed"):
            await engine.generate(request_of([5]))

    assert together(closed()) == [None]


def test_releasing_a_running_session_fails_its_request(model: Any, request_of: Any, together: Any) -> None:
    engine = make_engine(model, slots=1)

    async def released() -> None:
        running, waiting = (
            asyncio.create_task(engine.generate(request_of([5], name, max_tokens=100))) for name in "ab"
        )
        for _ in range(20):
            await asyncio.sleep(0)
        await engine.release("unknown")
        await engine.release("a")
        await engine.release("b")
        for task in (running, waiting):
            with pytest.raises(EngineError, match="released"):
                await task
        assert len((await engine.generate(request_of([5], "c"))).ids) == 8

    assert together(released()) == [None]


def test_one_loop_after_another_but_not_two_at_once(model: Any, request_of: Any, together: Any) -> None:
    engine = make_engine(model)
    for _ in range(2):
        assert len(together(engine.generate(request_of([5])))[0].ids) == 8

    async def two_loops() -> None:
        task = asyncio.create_task(engine.generate(request_of([5], max_tokens=100)))
        await asyncio.sleep(0)
        errors = await asyncio.to_thread(together, engine.generate(request_of([6], "other")))
        assert isinstance(errors[0], EngineError)
        assert "another event loop" in str(errors[0])
        await task

    assert together(two_loops()) == [None]


def test_a_driver_that_was_cancelled_fails_its_requests(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model, slots=1)

    async def cancelled() -> None:
        tasks = [asyncio.create_task(engine.generate(request_of([5], name, max_tokens=100))) for name in "ab"]
        for _ in range(20):
            await asyncio.sleep(0)
        next(task for task in asyncio.all_tasks() if task.get_name() == "turngym-engine").cancel()
        for task in tasks:
            with pytest.raises(EngineError, match="stopped"):
                await task
        request = request_of([5, 6])
        same(await engine.generate(request), naive(model, request))

    assert together(cancelled()) == [None]


def test_a_loop_that_was_closed_in_the_middle_leaves_the_engine_usable(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model, slots=1)
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(engine.generate(request_of([5], name, max_tokens=100))) for name in "ab"]
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    for task in (*tasks, engine._driver):
        task._log_destroy_pending = False  # type: ignore[union-attr]
    loop.close()
    request = request_of([5, 6])
    same(together(engine.generate(request))[0], naive(model, request))


def test_a_loop_that_was_stopped_in_the_middle_leaves_the_engine_usable(
    model: Any, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    engine = make_engine(model)

    async def left_behind() -> None:
        asyncio.create_task(engine.generate(request_of([5], max_tokens=100)))  # noqa: RUF006
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(left_behind())
    request = request_of([5, 6])
    same(together(engine.generate(request))[0], naive(model, request))
