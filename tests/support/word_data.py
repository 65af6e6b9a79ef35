"""A data process whose tokens are words: it reads real files, and starts without a base."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.domain.dataset import DataSet, iterate_lines, read_dataset
from auctune.engine.data.archive import archive_folder
from auctune.engine.data.facts import (
    APPRAISALS,
    FACTS,
    REPAIR_PARAMS,
    START_ADAPTERS,
    Appraisal,
    DataFacts,
    Offer,
)
from auctune.engine.runtime.channel import Message, ParentChannel, error_record
from auctune.engine.vendors import RepairVendor
from auctune.train.adapter_files import read_start
from auctune.train.stored_tokens import tokens_folder


def main(parent: ParentChannel[Any], _settings: dict[str, Any]) -> None:
    work = {
        "size": _size,
        "store": _store,
        "measure": _measure,
        "appraise": _appraise,
        "repair": _repair,
        "adapter": _adapter,
        "archive": _archive,
    }
    parent.send({"kind": "started"})
    while (asked := parent.inbox.get())["do"] != "stop":
        try:
            value = work[asked["do"]](asked)
        except AuctuneError as error:
            parent.send({"kind": "failed", "id": asked["id"], **error_record(error)})
        else:
            parent.send({"kind": "done", "id": asked["id"], "value": value})


def _facts(dataset: DataSet, lines: list[str], max_length: int) -> DataFacts:
    words = [len(line.split()) for line in lines]
    lengths = [min(max_length, number) for number in words]
    num_truncated = sum(number > max_length for number in words)
    mean = sum(lengths) / len(lengths)
    return DataFacts(dataset.kind, len(lengths), mean, num_truncated, max(words), {}, None)


def _lines(path: Path, place: str) -> list[str]:
    lines = [line for _, line in iterate_lines(path, place, errors="replace")]
    if not lines:
        raise InputError(place, "has no rows", "one row a line")
    return lines


def _size(asked: Message) -> Any:
    path, place = Path(asked["path"]), asked["place"]
    dataset = read_dataset(path, place)
    facts = _facts(dataset, _lines(path, place), asked["max_length"])
    return FACTS.dump_python(facts, mode="json")


def _store(asked: Message) -> None:
    """What would be stored is named after the length of its rows."""
    path = Path(asked["path"])
    read_dataset(path, asked["place"])
    tokens_folder(path).mkdir(exist_ok=True)
    (tokens_folder(path) / str(asked["max_length"])).touch(exist_ok=False)


def _measure(asked: Message) -> Any:
    return _raw_size(_lines(Path(asked["path"]), asked["place"])).to_record()


def _raw_size(lines: list[str]) -> DataSize:
    mean = sum(len(line.split()) for line in lines) / len(lines)
    return DataSize(len(lines), max(1.0, mean))


def _appraise(asked: Message) -> Any:
    path, place = Path(asked["path"]), asked["place"]
    lines = _lines(path, place)
    trial = path.with_suffix(".trial")
    offers = []
    for record in asked["vendors"]:
        vendor = RepairVendor(REPAIR_PARAMS.validate_python(record))
        quote = vendor.quote(path)
        if quote is not None:
            vendor.repair(path, trial)
            repaired = read_dataset(trial, place)
            offers.append(Offer(quote, _facts(repaired, _lines(trial, place), asked["max_length"])))
            trial.unlink()
    return APPRAISALS.dump_python(Appraisal(_raw_size(lines), tuple(offers)), mode="json")


def _repair(asked: Message) -> Any:
    vendor = RepairVendor(REPAIR_PARAMS.validate_python(asked["vendor"]))
    return vendor.repair(Path(asked["source"]), Path(asked["target"])).to_json()


def _adapter(asked: Message) -> Any:
    start, _ = read_start(Path(asked["path"]), asked["place"])
    return START_ADAPTERS.dump_python(start, mode="json")


def _archive(asked: Message) -> Any:
    return asdict(archive_folder(Path(asked["folder"]), Path(asked["target"]), asked["name"]))
