"""A run of the edge from its inputs to its report."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from auctune.atomic_files import write_atomically
from auctune.edge.eris import Eris
from auctune.run.adopted_cluster import adopted
from auctune.run.edge.driver import EdgeDriver, Parts
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.inputs import EdgeRunInputs
from auctune.run.edge.job_data import JobData
from auctune.run.edge.listener import EdgeListener
from auctune.run.edge.report import EdgeRunReport, make_report, write_report
from auctune.run.edge.resources import offered
from auctune.run.edge.state import EdgeRunState
from auctune.run.event_log import EventLog
from auctune.run.local_cluster import LocalCluster, drop_folder
from auctune.train.edge.gradients import check_device


def nothing() -> None:
    """There is nothing to prepare."""


def run_edge(
    inputs: EdgeRunInputs,
    data: Mapping[str, JobData],
    place: EdgeFolder,
    listener: EdgeListener,
    *,
    resume: bool = False,
    prepare: Callable[[], object] = nothing,
) -> EdgeRunReport:
    """Run what is left of a run, on a cluster of its own or on one that is there.

    Args:
        inputs: what it was started with.
        data: of each job, by `read_all`.
        place: its folder; new or empty, unless the run is resumed.
        listener: told of everything.
        resume: go on with the run in the folder.
        prepare: called when the folder is this run's, before any node is started.

    Raises:
        InputError: if the folder holds a run already, or none to go on with; if another process
            runs it, or there is no cluster.
        EdgeRunError: if a job cannot be trained; what was saved stands.
    """
    with place.open(resume=resume):
        prepare()
        with closing(EventLog(place.event_log)) as journal:
            if any(event["type"] == "ended" for event in journal.events):
                # Its report may have been lost with the driver.
                state = EdgeRunState(inputs.instance, Eris(inputs.instance.market, inputs.params))
                state.replay(journal.events)
                return _report(state, place)
            with _cluster(inputs, place, journal):
                return run_connected(inputs, data, place, journal, listener)


def run_connected(
    inputs: EdgeRunInputs,
    data: Mapping[str, JobData],
    place: EdgeFolder,
    journal: EventLog,
    listener: EdgeListener,
) -> EdgeRunReport:
    """Run what is left of a run, on the cluster to which this process is connected.

    Raises:
        InputError, EdgeRunError: as `run_edge`.
    """
    driver = EdgeDriver(Parts(inputs, data, place, journal, listener))
    driver.run()
    return _report(driver.state, place)


def _report(state: EdgeRunState, place: EdgeFolder) -> EdgeRunReport:
    report = make_report(state)
    write_report(place.report, report)
    return report


@contextmanager
def _cluster(inputs: EdgeRunInputs, place: EdgeFolder, journal: EventLog) -> Iterator[None]:
    """Connect to the nodes of all sites that were not lost before."""
    if inputs.ray:
        with adopted(inputs.ray, "--ray"):
            yield
        return
    check_device(inputs.device)
    lost = {event["site"] for event in journal.events if event["type"] == "site_lost"}
    sites = [site for site in inputs.instance.market.sites if site.id not in lost]
    if place.sites.exists():
        drop_folder(Path(json.loads(place.sites.read_bytes())["folder"]))
    with LocalCluster({site.id: offered(site) for site in sites}) as cluster:
        processes = {site.id: cluster.process_of(site.id) for site in sites}
        known = {"folder": str(cluster.folder), "processes": processes}
        write_atomically(place.sites, json.dumps(known, indent=2).encode() + b"\n")
        yield
