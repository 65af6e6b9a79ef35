"""A data process whose tokens are words: it reads real files, and starts without a base."""

from pathlib import Path
from typing import Any

from auctune.datasets import read_dataset
from auctune.datasets.files import iterate_texts
from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.domain.dataset import DataSet
from auctune.engine.data.archive import archive_folder
from auctune.engine.messages.base import ErrorRecord, Failed, Ready, Stop
from auctune.engine.messages.data import (
    DATA_MESSAGES,
    AdapterRead,
    Appraisal,
    AppraiseFile,
    ArchiveFolder,
    DataFacts,
    DataReply,
    DataRequest,
    DataResponse,
    FileAppraised,
    FileMeasured,
    FileRepaired,
    FileSized,
    FileStored,
    FolderArchived,
    MeasureFile,
    Offer,
    Prepare,
    ReadAdapter,
    RepairFile,
    SizeFile,
    StoreFile,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.vendors import RepairVendor
from auctune.train.adapter_files import read_start
from auctune.train.stored_tokens import tokens_folder

MESSAGES = DATA_MESSAGES


def main(parent: ParentChannel[DataReply, Any], _settings: dict[str, Any]) -> None:
    parent.send(Ready())
    while not isinstance(request := parent.inbox.get(), Stop):
        try:
            response = _handle(request)
        except AuctuneError as error:
            parent.send(Failed(error=ErrorRecord.of(error)))
        else:
            parent.send(response)


def _handle(request: DataRequest) -> DataResponse:
    match request:
        case Prepare():
            raise AssertionError("there is no base")
        case SizeFile():
            dataset = read_dataset(request.path, request.place)
            return FileSized(
                value=_facts(dataset, _lines(request.path, request.place), request.max_length)
            )
        case StoreFile():
            # What would be stored is named after the length of its rows.
            read_dataset(request.path, request.place)
            tokens_folder(request.path).mkdir(exist_ok=True)
            (tokens_folder(request.path) / str(request.max_length)).touch(exist_ok=False)
            return FileStored()
        case MeasureFile():
            return FileMeasured(value=_raw_size(_lines(request.path, request.place)))
        case AppraiseFile():
            return FileAppraised(value=_appraise(request))
        case RepairFile():
            return FileRepaired(
                value=RepairVendor(request.vendor).repair(request.source, request.target)
            )
        case ReadAdapter():
            return AdapterRead(value=read_start(request.path, request.place)[0])
        case ArchiveFolder():
            return FolderArchived(
                value=archive_folder(request.folder, request.target, request.name)
            )


def _facts(dataset: DataSet, lines: list[str], max_length: int) -> DataFacts:
    words = [len(line.split()) for line in lines]
    lengths = [min(max_length, number) for number in words]
    num_truncated = sum(number > max_length for number in words)
    mean, square = (sum(n**power for n in lengths) / len(lengths) for power in (1, 2))
    return DataFacts(dataset.kind, len(lengths), mean, square, num_truncated, max(words), {}, None)


def _lines(path: Path, place: str) -> list[str]:
    lines = [line for _, line in iterate_texts(path, place, errors="replace")]
    if not lines:
        raise InputError(place, "has no rows", "one row a line")
    return lines


def _raw_size(lines: list[str]) -> DataSize:
    mean = sum(len(line.split()) for line in lines) / len(lines)
    return DataSize(len(lines), max(1.0, mean))


def _appraise(request: AppraiseFile) -> Appraisal:
    path, place = request.path, request.place
    lines = _lines(path, place)
    trial = path.with_suffix(".trial")
    offers = []
    for params in request.vendors:
        vendor = RepairVendor(params)
        quote = vendor.quote(path)
        if quote is not None:
            vendor.repair(path, trial)
            repaired = read_dataset(trial, place)
            offers.append(Offer(quote, _facts(repaired, _lines(trial, place), request.max_length)))
            trial.unlink()
    return Appraisal(_raw_size(lines), tuple(offers))
