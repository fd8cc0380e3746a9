"""What `turngym envs new` writes: the texts of a package, with `$name`, `$module`, `$cls` and `$id` to fill in."""

from turngym.cli.blueprint.files import FILES
from turngym.cli.blueprint.kinds import KINDS

__all__ = ["FILES", "KINDS"]
