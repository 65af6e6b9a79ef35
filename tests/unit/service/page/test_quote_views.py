"""Fields of the form for a new job that errors are about."""

import pytest

from auctune.service.page.job_views import field_of


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("training_file", "training_file"),
        ("training_file: line 2", "training_file"),
        ("market.deadline", "deadline"),
        ("market.value.zero_at", "zero_at"),
        ("market.value.amount", "value"),
        ("market.lora.rank", "rank"),
        ("hyperparameters.n_epochs", "n_epochs"),
        ("market.sites.north", "sites"),
        ("market.sites[0]", "sites"),
        ("metadata.name", "name"),
        # Of no field alone: it stands above the form.
        ("market", ""),
        ("", ""),
    ],
)
def test_an_error_stands_beside_the_field_that_it_names(place: str, field: str) -> None:
    assert field_of(place) == field
