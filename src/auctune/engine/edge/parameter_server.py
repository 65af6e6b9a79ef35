"""Worker that holds a job's weights and optimizer: the job's parameter server.

| to the worker | from the worker |
| --- | --- |
| begin {total_rows, base_digest, steps, rows, tokens} + weights and moments, or weights alone | \
weights {num_parameters} + weights |
| reduce {num_rows, losses, hits, num_targets} + the gradient of each micro-batch, in order | \
reduced {loss, accuracy, steps, rows, tokens} + weights |
| save | state {base_digest, steps, rows, tokens} + weights and moments |

All arrays are float32 [num_parameters].
"""

from typing import Any

from auctune.engine.edge.errors import serve
from auctune.engine.edge.gradient_worker import dump_training, load_training
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.runtime.channel import Message, ParentChannel
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.data_parallel.batches import Contribution
from auctune.train.data_parallel.reducer import COUNTS, AdapterReducer, AdapterState
from auctune.train.job import LoraJob

_WORKER = "auctune.engine.edge.parameter_server"


def parameter_server(training: EdgeTraining) -> WorkerSpec:
    """Return what the parameter server of a job runs."""
    return WorkerSpec(_WORKER, dump_training(training))


class ParameterServer:
    """The worker's verbs.

    Args:
        job: settings of the optimizer.
    """

    def __init__(self, job: LoraJob) -> None:
        self._job = job
        self._reducer: AdapterReducer | None = None

    def begin(self, message: Message) -> Message:
        """Go on from a state, or begin with weights alone."""
        self._reducer = AdapterReducer(self._job, read_state(message), message["total_rows"])
        weights = self._reducer.weights
        return {"kind": "weights", "num_parameters": weights.size, "arrays": [weights]}

    def reduce(self, message: Message) -> Message:
        """Add gradients up in their order, and take a step."""
        assert self._reducer is not None
        parts = zip(message["arrays"], message["losses"], message["hits"], strict=True)
        contributions = [
            Contribution(*part, num_targets)
            for part, num_targets in zip(parts, message["num_targets"], strict=True)
        ]
        loss, accuracy = self._reducer.reduce(contributions, message["num_rows"])
        steps, rows, tokens = self._reducer.counts
        return {
            "kind": "reduced",
            "loss": loss,
            "accuracy": accuracy,
            "steps": steps,
            "rows": rows,
            "tokens": tokens,
            "arrays": [self._reducer.weights],
        }

    def save(self, _: Message) -> Message:
        """Return all that training goes on from."""
        assert self._reducer is not None
        return {"kind": "state", **state_record(self._reducer.state())}


def state_record(state: AdapterState) -> Message:
    """Return a state as messages have it."""
    arrays = [state.weights, state.exp_avg, state.exp_avg_sq]
    return {**{name: getattr(state, name) for name in COUNTS}, "arrays": arrays}


def read_state(message: Message) -> AdapterState:
    """Return the state of a message: that before the first step, if it has weights alone."""
    weights, *moments = message["arrays"]
    if not moments:
        return AdapterState.first(weights, message["base_digest"])
    return AdapterState(weights, *moments, **{name: message[name] for name in COUNTS})


def main(parent: ParentChannel[Any], argument: Message) -> None:
    """Run the worker; the argument is how its job trains."""
    server = ParameterServer(load_training(argument).config)
    parent.send({"kind": "ready"})
    serve(parent, {"begin": server.begin, "reduce": server.reduce, "save": server.save})
