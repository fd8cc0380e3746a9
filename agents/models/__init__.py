"""Models by name: the built-in ones and any local folder in the transformers format."""

from turngym.agents.models.loaded import LoadedModel
from turngym.agents.models.loading import BUILT_IN, load_model, save_checkpoint

__all__ = ["BUILT_IN", "LoadedModel", "load_model", "save_checkpoint"]
