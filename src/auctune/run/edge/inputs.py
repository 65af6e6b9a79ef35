"""What a run was started with, copied into its folder: it goes on from there alone."""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.edge.eris import ErisPlayer
from auctune.edge.prices import ErisParams
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.resources import gpus_wanted
from auctune.run.edge.training_file import read_training
from auctune.sim.edge.comparison import parse_player
from auctune.sim.edge.instance_file import EdgeInstance, read_edge_instance
from auctune.train.edge.recipe import Recipe


@dataclass(frozen=True, slots=True)
class EdgeRunInputs:
    """A run's instance, training and settings.

    Attributes:
        instance: market and jobs.
        recipes: how each job trains.
        params: of Eris.
        device: of workers.
        ray: address of a cluster that is there; empty: one is started on this machine.
    """

    instance: EdgeInstance
    recipes: dict[str, Recipe]
    params: ErisParams = field(default_factory=ErisParams)
    device: str = "cpu"
    ray: str = ""


def read_inputs(
    instance: Path,
    training: Path | None,
    mechanism: str = "eris",
    device: str = "cpu",
    ray: str = "",
) -> EdgeRunInputs:
    """The inputs in files.

    Raises:
        InputError: naming the file and field, or the option.
    """
    player = parse_player(mechanism)
    if not isinstance(player, ErisPlayer):
        raise InputError("--mechanism", f"{mechanism!r} does not run for real", "eris")
    market = read_edge_instance(instance)
    for job in market.jobs if ray else ():
        try:
            gpus_wanted(device, job.worker)
        except InputError as error:
            raise error.within(f"{instance}: job {job.id}") from None
    recipes = read_training(training, [job.id for job in market.jobs])
    return EdgeRunInputs(market, recipes, player.params, device, ray)


def keep_inputs(instance: Path, inputs: EdgeRunInputs, place: EdgeFolder) -> None:
    """Write what a run needs into its folder; the settings come last, and make it one.

    Raises:
        InputError: if the folder cannot be written.
    """
    settings = {
        "params": asdict(inputs.params),
        "device": inputs.device,
        "ray": inputs.ray,
        "recipes": {job: asdict(recipe) for job, recipe in inputs.recipes.items()},
    }
    try:
        place.inputs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(instance, place.inputs / "instance.json")
        text = json.dumps(settings, indent=2).encode() + b"\n"
        write_atomically(place.settings, text)
    except OSError as error:
        found = f"cannot be written ({error.strerror})"
        raise InputError(str(place.inputs), found, "room for the run's inputs") from None


def has_inputs(place: EdgeFolder) -> bool:
    """Whether a run's inputs were kept whole."""
    return place.settings.is_file()


def kept_inputs(place: EdgeFolder) -> EdgeRunInputs:
    """The inputs of a run that was begun.

    Raises:
        InputError: if there is none, or they are damaged.
    """
    path = place.settings
    try:
        settings = json.loads(path.read_bytes())
        recipes = {job: Recipe(**values) for job, values in settings["recipes"].items()}
        params = ErisParams(**settings["params"])
        device, ray = str(settings["device"]), str(settings["ray"])
    except OSError:
        expected = "the folder of a run that was started"
        raise InputError(str(place.root), "holds no run", expected) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(str(path), "is damaged", "the settings of a run") from None
    instance = read_edge_instance(place.inputs / "instance.json")
    return EdgeRunInputs(instance, recipes, params, device, ray)
