"""What the local engine costs, as ratios against transformers' own `generate` measured in the same run.

    python benchmarks/engine_bench.py [--model tiny] [--repeats 5]

Two questions: how many tokens a second are sampled when many episodes run at once, and what it costs to cut
one generation into the turns of an episode, with and without the cache that is kept between turns.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from turngym.agents.engines.hf import HFEngine
from turngym.agents.models import LoadedModel, load_model
from turngym.agents.protocols import GenerateRequest, NoiseKey, Sampling

PROMPT_TOKENS = 48
NEW_TOKENS = 48
TURNS = 16
TURN_TOKENS = 32


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="tiny", help="built-in name or folder")
    parser.add_argument("--repeats", type=int, default=5, help="alternating repetitions; medians are printed")
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64, 256], help="sequences at once")
    arguments = parser.parse_args()
    loaded = load_model(arguments.model)
    parameters = sum(weight.numel() for weight in loaded.model.parameters())
    print(
        f"{loaded.name}: {parameters / 1e6:.2f}M parameters, {torch.get_num_threads()} threads, "
        f"medians of {arguments.repeats}"
    )
    for batch in arguments.batches:
        compare_throughput(loaded, batch, arguments.repeats)
    compare_turns(loaded, arguments.repeats)


def compare_throughput(loaded: LoadedModel, batch: int, repeats: int) -> None:
    """Sampled tokens per second: 4 × `batch` sequences, `batch` at a time."""
    prompts = random_prompts(loaded, 4 * batch, PROMPT_TOKENS)
    engine = HFEngine(loaded.model, max_context=PROMPT_TOKENS + NEW_TOKENS, slots=batch)
    ours, theirs = medians(
        repeats,
        lambda: asyncio.run(run_engine(engine, prompts)),
        lambda: run_generate(loaded, prompts, batch),
    )
    tokens = len(prompts) * NEW_TOKENS
    print(
        f"batch {batch:4d}: engine {tokens / ours:8,.0f} tokens/s, "
        f"generate {tokens / theirs:8,.0f} tokens/s, ratio {theirs / ours:.2f}"
    )


def compare_turns(loaded: LoadedModel, repeats: int) -> None:
    """One episode of many turns against one generation of as many tokens in all, batch 1."""
    prompt = random_prompts(loaded, 1, TURN_TOKENS)[0]
    engine = HFEngine(loaded.model, max_context=(2 * TURNS + 1) * TURN_TOKENS, slots=1)
    once, kept, dropped = medians(
        repeats,
        lambda: asyncio.run(run_turns(engine, prompt, turns=1, new_tokens=TURNS * TURN_TOKENS, keep=True)),
        lambda: asyncio.run(run_turns(engine, prompt, turns=TURNS, new_tokens=TURN_TOKENS, keep=True)),
        lambda: asyncio.run(run_turns(engine, prompt, turns=TURNS, new_tokens=TURN_TOKENS, keep=False)),
    )
    print(
        f"{TURNS} turns of {TURN_TOKENS} + {TURN_TOKENS} tokens against one generation of "
        f"{TURNS * TURN_TOKENS}: {kept / once:.2f} times the time with the cache kept between turns, "
        f"{dropped / once:.2f} without"
    )


async def run_engine(engine: HFEngine, prompts: Sequence[Sequence[int]]) -> None:
    """All prompts at once, as many running as there are slots; nothing is cached from an earlier call."""
    await engine.update_weights(None, policy_version=0)
    await asyncio.gather(
        *(sample(engine, prompt, str(index), NEW_TOKENS) for index, prompt in enumerate(prompts))
    )


async def run_turns(
    engine: HFEngine, prompt: Sequence[int], *, turns: int, new_tokens: int, keep: bool
) -> None:
    """One episode whose environment answers with as many tokens as the prompt has."""
    await engine.update_weights(None, policy_version=0)
    context = list(prompt)
    for _ in range(turns):
        context += await sample(engine, context, "episode", new_tokens, release=False)
        context += prompt
        if not keep:
            await engine.update_weights(None, policy_version=0)
    await engine.release("episode")


async def sample(
    engine: HFEngine, prompt: Sequence[int], session: str, new_tokens: int, *, release: bool = True
) -> tuple[int, ...]:
    """One continuation of exactly `new_tokens` tokens."""
    noise = NoiseKey(run_seed=0, step=0, task=session, sample=0)
    request = GenerateRequest(tuple(prompt), session, Sampling(max_tokens=new_tokens), noise, 0, ())
    generation = await engine.generate(request)
    if release:
        await engine.release(session)
    return generation.ids


def run_generate(loaded: LoadedModel, prompts: Sequence[Sequence[int]], batch: int) -> None:
    """The same work by transformers' generate, in batches of equal lengths (its best case)."""
    for start in range(0, len(prompts), batch):
        ids = torch.tensor(prompts[start : start + batch], device=loaded.model.device)
        loaded.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            min_new_tokens=NEW_TOKENS,
            max_new_tokens=NEW_TOKENS,
            pad_token_id=loaded.tokenizer.pad_token_id,
        )


def random_prompts(loaded: LoadedModel, count: int, tokens: int) -> list[list[int]]:
    """Prompts of random ids that have no beginning in common."""
    generator = np.random.default_rng(0)
    prompts: list[list[int]] = generator.integers(3, len(loaded.tokenizer), (count, tokens)).tolist()
    return prompts


def medians(repeats: int, *functions: Callable[[], None]) -> list[float]:
    """Median seconds of each function; they take turns, so that a busy machine slows all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    for _ in range(repeats):
        for function, measured in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            measured.append(time.perf_counter() - start)
    return [statistics.median(measured) for measured in times]


if __name__ == "__main__":
    main()
