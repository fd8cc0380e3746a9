"""Answers compared by value: which text of a reply is its final answer, and is it the reference?

verify("1/2", r"… so it is \\boxed{0.5}.")      True
"""

from turngym.envs.verify.final import final_answers, reference_answer
from turngym.envs.verify.finished import is_worked_out
from turngym.envs.verify.verifier import averify, close_workers, verify

__all__ = ["averify", "close_workers", "final_answers", "is_worked_out", "reference_answer", "verify"]
