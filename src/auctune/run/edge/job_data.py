"""The data of jobs, dealt out to chunks, and where those lie."""

from collections import Counter
from collections.abc import Mapping, Sequence

from auctune.domain import InputError
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.train.edge.batches import deal_out
from auctune.train.edge.descent import Floats
from auctune.train.edge.gradients import GradientMaker
from auctune.train.edge.images import DataSet, Images, ImageShape, read_data
from auctune.train.edge.recipe import Recipe


class JobData:
    """A job's samples, as the driver has them.

    Args:
        job: names chunks by site.
        recipe: names the model.
        chunks: by number: those of the job's first site, then of its second, and so on.
        test: samples to measure by; none: it is not measured.
        shape: of all of them.

    Attributes:
        chunks, test, shape: those.
        maker: of the job's model; its weights are whatever they were last set to.
        first_weights: before the first step.

    Raises:
        InputError: if there is no such model.
    """

    def __init__(
        self,
        job: EdgeJob,
        recipe: Recipe,
        chunks: Sequence[Images],
        test: Images | None,
        shape: ImageShape,
    ) -> None:
        assert len(chunks) == job.num_chunks, (len(chunks), job.num_chunks)
        self.recipe, self.chunks, self.test, self.shape = recipe, chunks, test, shape
        self._first: dict[str, int] = {}
        passed = 0
        for site, count in job.chunks.items():
            self._first[site] = passed
            passed += count
        self._counts = dict(job.chunks)
        self.maker = GradientMaker(recipe, shape)
        self.first_weights: Floats = self.maker.weights

    def at_site(self, site: str) -> list[int]:
        """The numbers of the chunks that lie at a site."""
        first = self._first.get(site, 0)
        return list(range(first, first + self._counts.get(site, 0)))

    def origin(self, chunk: int) -> str:
        """The site at which a chunk lies."""
        return next(site for site in self._first if chunk in self.at_site(site))

    def by_destination(self, part: SlotPlan, taken: Counter[str]) -> dict[str, list[int]]:
        """The chunks of a slot by where they are trained.

        Args:
            part: the plan of the slot.
            taken: chunks by origin that are trained; the next ones follow them.
        """
        position, dealt = Counter(taken), dict[str, list[int]]()
        for move in part.moves:
            first = position[move.origin]
            here = self.at_site(move.origin)[first : first + move.chunks]
            dealt.setdefault(move.destination, []).extend(here)
            position[move.origin] += move.chunks
        return dealt

    def sizes(self, chunks: Sequence[int]) -> dict[int, int]:
        """Samples by chunk."""
        return {chunk: len(self.chunks[chunk]) for chunk in chunks}


def deal(job: EdgeJob, recipe: Recipe, data: DataSet) -> JobData:
    """A data set, dealt out to a job's chunks.

    Raises:
        InputError: if there are more chunks than samples, or no such model.
    """
    if job.num_chunks > len(data.train):
        expected = f"{len(data.train)} at most, the samples there are"
        raise InputError("chunks", f"are {job.num_chunks}", expected)
    dealt = deal_out(recipe, data.train.labels, job.num_chunks)
    chunks = [data.train.at(indices) for indices in dealt]
    return JobData(job, recipe, chunks, data.test, data.shape)


def read_all(jobs: Sequence[EdgeJob], recipes: Mapping[str, Recipe]) -> dict[str, JobData]:
    """The data of all jobs; a set that several use is read once.

    Raises:
        InputError: if data or a model cannot be used.
    """
    read: dict[tuple[str, str, int, int], DataSet] = {}
    found = {}
    for job in jobs:
        recipe = recipes[job.id]
        key = (recipe.data, recipe.folder, recipe.image_size, recipe.seed)
        try:
            if key not in read:
                read[key] = read_data(recipe)
            found[job.id] = deal(job, recipe, read[key])
        except InputError as error:
            raise error.within(f"job {job.id}") from None
    return found
