"""All estimators by name: those of `auctune.timeshare`, and the one that needs torch."""

from auctune.timeshare.named import Estimators
from auctune.train.timeshare.engression import Engression

ESTIMATORS = Estimators(Engression)
