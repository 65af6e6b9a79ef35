"""A job's data, from a file a site: chunks of samples in an order that the seed draws."""

from pathlib import Path

import numpy as np

from auctune.edge.job import EdgeJob
from auctune.numerics.rng import stream
from auctune.run.data.image_rows import read_images
from auctune.run.edge.job_data import JobData
from auctune.run.open_sites.messages import TrainingTerms
from auctune.train.edge.images import Images, ImageShape
from auctune.train.edge.recipe import Recipe


def recipe_of(terms: TrainingTerms) -> Recipe:
    """The recipe of a job whose data are in files of its own.

    Raises:
        InputError: naming what is wrong with it.
    """
    return Recipe(
        model=terms.model,
        global_batch=terms.batch_size,
        micro_batch=terms.micro_batch,
        learning_rate=terms.learning_rate,
        momentum=terms.momentum,
        weight_decay=terms.weight_decay,
        seed=terms.seed,
    )


def read_job_data(job: EdgeJob, terms: TrainingTerms) -> JobData:
    """The data of a job, site by site in its order.

    Raises:
        InputError: if a file cannot be read, or is not what it was when the job was decided on.
    """
    recipe, chunks = recipe_of(terms), list[Images]()
    for site, count in job.chunks.items():
        if count:
            images = Images(*read_images(Path(terms.files[site]), f"market.sites.{site}"))
            order = stream(terms.seed, "edge", "site", site).permutation(len(images))
            parts = np.array_split(order.astype(np.int64), count)
            chunks.extend(images.at(part) for part in parts)
    test = None
    if terms.validation is not None:
        test = Images(*read_images(Path(terms.validation), "validation_file"))
    _, channels, height, width = chunks[0].images.shape
    return JobData(job, recipe, chunks, test, ImageShape((channels, height, width), terms.classes))
