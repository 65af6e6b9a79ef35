"""The reference of training settings, written from their declaration.

python tests/support/training_page.py > docs/reference/training-settings.md
"""

import json

from auctune.domain.training import PARAMETERS, Parameter

PAGE = """# Training settings

The hyperparameters of an adapter's training, wherever a job is described:

| in | settings |
| --- | --- |
| `[[bids]]` of a [market file](market-file.md#bids) | all |
| `auctune submit --set` | all |
| `[training]` of a [spot job file](spot-files.md#training) | all but `patience` |
| `[default]` and `[jobs.ID]` of a [TRAINING.toml](edge-files.md#trainingtoml) | all but `epochs`, which the instance gives, and `patience` |
| `settings` of a thread of kind `lora` in a [bundle](timeshare-files.md#thread) | all but `epochs`, `schedule`, `warmup_ratio`, `seed` (a key of the thread) and `patience` |
| `market.lora` of a request of the [API](api.md) | all but `method`, `beta`, `epochs`, `batch_size` and `seed`, which are OpenAI's `method`, `n_epochs`, `batch_size` and `seed`; defaults that differ: 3 epochs, a random seed, and the zone's `max_length` |

| setting | type | default | meaning |
| --- | --- | --- | --- |
{rows}

An adapter's names are those of PEFT. A value out of range is refused where it is given.
"""  # noqa: E501 (a table's row cannot be broken)


def row(parameter: Parameter) -> str:
    default = json.dumps(parameter.default)
    cells = (f"`{parameter.name}`", parameter.expected, f"`{default}`", parameter.description)
    return f"| {' | '.join(cells)} |"


def page() -> str:
    return PAGE.format(rows="\n".join(map(row, PARAMETERS.values())))


if __name__ == "__main__":
    print(page(), end="")
