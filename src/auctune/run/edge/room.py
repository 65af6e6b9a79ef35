"""What is free at sites, counted as Ray counts: for actors that nobody must wait for."""

from collections.abc import Mapping

from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.run.edge.resources import site_resource, wanted

_SITE = site_resource("")


class Room:
    """Units of sites that are not spoken for.

    Args:
        free: by site and resource of Ray.
    """

    def __init__(self, free: Mapping[str, Mapping[str, float]]) -> None:
        self._free = {site: dict(units) for site, units in free.items()}

    def take(self, site: str, needs: Mapping[str, float], *, is_owed: bool = False) -> bool:
        """Take an actor's units, if they are free; whether they were.

        Args:
            site: where.
            needs: of the market, by resource type.
            is_owed: whether they are taken in any case, as the plan has it.
        """
        free = self._free.setdefault(site, {})
        units = wanted(site, needs)
        fits = all(free.get(name, 0.0) >= count for name, count in units.items())
        if fits or is_owed:
            for name, count in units.items():
                free[name] = free.get(name, 0.0) - count
        return fits

    def take_part(self, job: EdgeJob, part: SlotPlan) -> None:
        """Take what a job's slot needs."""
        for site, count in part.workers.items():
            for _ in range(count):
                self.take(site, job.worker, is_owed=True)
        self.take(part.server, job.server, is_owed=True)


def room_of_nodes() -> Room:
    """All that sites of a single node have.

    Of several, nobody but Ray knows which of them has what is free: there is no room then.
    """
    import ray

    found: dict[str, list[Mapping[str, float]]] = {}
    for node in ray.nodes():
        for name in node["Resources"] if node["Alive"] else ():
            if name.startswith(_SITE):
                found.setdefault(name.removeprefix(_SITE), []).append(node["Resources"])
    return Room({site: nodes[0] for site, nodes in found.items() if len(nodes) == 1})
