"""Engines: token ids in, sampled token ids and their logprobs out."""
