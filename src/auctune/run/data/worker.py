"""The data process: does one request after the other; tokenizers are loaded once each."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.run.atomic_file import drop_drafts
from auctune.run.child import Message
from auctune.run.child.messages import error_record
from auctune.run.child.parent import Parent
from auctune.run.data.archive import archive_folder
from auctune.run.data.examiner import Examiner
from auctune.run.data.image_rows import image_facts
from auctune.run.data.messages import read_params
from auctune.run.vendors import RepairVendor


class Desk:
    """Answers requests.

    Args:
        cache: folder of bases that are built here.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._examiners: dict[str, Examiner] = {}
        self.work: dict[str, Callable[[Message], Any]] = {
            "prepare": self._prepare,
            "size": self._size,
            "measure": self._measure,
            "appraise": self._appraise,
            "repair": self._repair,
            "images": self._images,
            "archive": self._archive,
        }

    def _examiner(self, base: str) -> Examiner:
        from auctune.train.tokenizer import load_tokenizer

        if base not in self._examiners:
            self._examiners[base] = Examiner(*load_tokenizer(base, cache=self._cache))
        return self._examiners[base]

    def _prepare(self, asked: Message) -> Any:
        return self._examiner(asked["base"]).context_tokens

    def _size(self, asked: Message) -> Any:
        examiner = self._examiner(asked["base"])
        return asdict(examiner.facts(Path(asked["path"]), asked["place"], asked["max_length"]))

    def _measure(self, asked: Message) -> Any:
        examiner, path = self._examiner(asked["base"]), Path(asked["path"])
        return asdict(examiner.raw_size(path, asked["place"], asked["max_length"]))

    def _appraise(self, asked: Message) -> Any:
        vendors = [RepairVendor(read_params(record)) for record in asked["vendors"]]
        examiner, path = self._examiner(asked["base"]), Path(asked["path"])
        return examiner.appraise(path, asked["place"], asked["max_length"], vendors).to_record()

    def _repair(self, asked: Message) -> Any:
        target = Path(asked["target"])
        drop_drafts(target)
        vendor = RepairVendor(read_params(asked["vendor"]))
        return vendor.repair(Path(asked["source"]), target).to_json()

    def _images(self, asked: Message) -> Any:
        return asdict(image_facts(Path(asked["path"]), asked["place"]))

    def _archive(self, asked: Message) -> Any:
        target = Path(asked["target"])
        drop_drafts(target)
        return asdict(archive_folder(Path(asked["folder"]), target, asked["name"]))


def main() -> None:
    """Start a data process; the folder of bases is its only argument, as JSON."""
    parent = Parent()
    desk = Desk(Path(json.loads(sys.argv[1])))
    while (asked := parent.orders.get())["do"] != "stop":
        try:
            value = desk.work[asked["do"]](asked)
        except AuctuneError as error:
            parent.say("failed", id=asked["id"], **error_record(error))
        else:
            parent.say("done", id=asked["id"], value=value)
    parent.leave()


if __name__ == "__main__":
    main()
