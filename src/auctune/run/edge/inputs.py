"""Inputs of a run, and their copies in its folder, from which alone it is resumed."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.edge.eris import ErisPlayer
from auctune.edge.prices import ErisParams
from auctune.run.edge.edge_folder import EdgeFolder
from auctune.run.edge.resources import worker_gpus
from auctune.run.edge.training import EdgeTraining, read_training
from auctune.sim.edge.comparison import parse_player
from auctune.sim.edge.instance_file import EdgeInstance, read_edge_instance


@dataclass(frozen=True, slots=True)
class EdgeRunInputs:
    """A run's instance, training and settings.

    Attributes:
        instance: market and jobs.
        trainings: how each job trains.
        params: of Eris.
        device: of workers.
        ray: address of an existing cluster; empty: one is started on this machine.
    """

    instance: EdgeInstance
    trainings: dict[str, EdgeTraining]
    params: ErisParams = field(default_factory=ErisParams)
    device: str = "cpu"
    ray: str = ""


@dataclass(frozen=True, slots=True)
class _Settings:
    """Inputs without the instance, which has a file of its own."""

    trainings: dict[str, EdgeTraining]
    params: ErisParams
    device: str
    ray: str


_SETTINGS = TypeAdapter(_Settings)


def read_inputs(
    instance: Path,
    training: Path,
    mechanism: str = "eris",
    device: str = "cpu",
    ray: str = "",
) -> EdgeRunInputs:
    """Return the inputs in files.

    Raises:
        InputError: naming the file and field, or the option.
    """
    player = parse_player(mechanism)
    if not isinstance(player, ErisPlayer):
        raise InputError("--mechanism", f"{mechanism!r} does not run for real", "eris")
    market = read_edge_instance(instance)
    for job in market.jobs if ray else ():
        try:
            worker_gpus(device, job.worker)
        except InputError as error:
            raise error.within(f"{instance}: job {job.id}") from None
    return EdgeRunInputs(market, read_training(training, market.jobs), player.params, device, ray)


def copy_inputs(instance: Path, inputs: EdgeRunInputs, folder: EdgeFolder) -> None:
    """Write a run's inputs into its folder; the settings come last, and make them complete.

    Raises:
        InputError: if the folder cannot be written.
    """
    settings = _Settings(inputs.trainings, inputs.params, inputs.device, inputs.ray)
    try:
        folder.inputs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(instance, folder.inputs / "instance.json")
        write_atomically(folder.settings, _SETTINGS.dump_json(settings, indent=2) + b"\n")
    except OSError as error:
        found = f"cannot be written ({error.strerror})"
        raise InputError(str(folder.inputs), found, "room for the run's inputs") from None


def has_inputs(folder: EdgeFolder) -> bool:
    """Return whether a run's inputs were copied completely."""
    return folder.settings.is_file()


def read_copied_inputs(folder: EdgeFolder) -> EdgeRunInputs:
    """Return the inputs of a run that was started.

    Raises:
        InputError: if there is none, or they are damaged.
    """
    path = folder.settings
    try:
        settings = _SETTINGS.validate_json(path.read_bytes())
    except OSError:
        expected = "the folder of a run that was started"
        raise InputError(str(folder.root), "holds no run", expected) from None
    except (ValidationError, InputError):
        raise InputError(str(path), "is damaged", "the settings of a run") from None
    instance = read_edge_instance(folder.inputs / "instance.json")
    return EdgeRunInputs(
        instance, settings.trainings, settings.params, settings.device, settings.ray
    )
