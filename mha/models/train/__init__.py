"""Training, the same for every model here: the loop, the rate of its steps, and the state that it resumes from."""

from mha.models.train.loop import train
from mha.models.train.optimiser import learning_rate
from mha.models.train.run import History

__all__ = ["History", "learning_rate", "train"]
