"""The process of the sites of a zone."""

from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.edge.worker import SitesSettings, SitesWorker
from auctune.engine.runtime.channel import ParentChannel


def test_the_process_of_sites_on_a_cluster_needs_no_gpu_of_its_own(tmp_path: Path) -> None:
    settings = SitesSettings(str(tmp_path), {"a": {"gpu": 1.0}}, ray="127.0.0.1:1", device="cuda:9")
    with pytest.raises(InputError, match=r"ray\.address: '127.0.0.1:1' does not answer"):
        SitesWorker(settings, ParentChannel.__new__(ParentChannel)).run()
    here = replace(settings, ray="")
    with pytest.raises(InputError, match="'cuda:9'"):
        SitesWorker(here, ParentChannel.__new__(ParentChannel)).run()
