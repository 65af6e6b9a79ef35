import csv

from auctune.domain.epoch_metrics import COLUMNS, metrics_csv, step_metrics


def result(*losses: list[object], validation: tuple[list[object], ...] = ()) -> dict[str, object]:
    return {"losses": list(losses), "validation": list(validation)}


def test_validation_stands_at_the_step_that_ends_its_epoch() -> None:
    slot = result([3, 12, 120, 2.0, 0.25], [4, 13, 130, 1.5, 0.5], validation=([1, 13, 1.75, 0.4],))
    assert [list(one.values()) for one in step_metrics(slot)] == [
        [3, 2.0, 0.25, None, None],
        [4, 1.5, 0.5, 1.75, 0.4],
    ]


def test_a_result_file_has_each_step_once_as_it_was_trained_last() -> None:
    slots = [
        result([1, 4, 40, 3.0, 0.1], [2, 8, 80, 0.1 + 0.2, 1 / 3]),
        result([2, 8, 80, 2.5, None]),
        result(),
        result([3, 12, 120, 2.0, 0.5], validation=([1, 12, 1.75, 0.4],)),
    ]
    text = metrics_csv(slots)
    assert text.splitlines()[0] == ",".join(COLUMNS)
    assert text.splitlines()[0] == (
        "step,train_loss,train_mean_token_accuracy,valid_loss,valid_mean_token_accuracy"
    )
    rows = [list(row.values()) for row in csv.DictReader(text.splitlines())]
    assert rows == [
        ["1", "3.0", "0.1", "", ""],
        ["2", "2.5", "", "", ""],
        ["3", "2.0", "0.5", "1.75", "0.4"],
    ]


def test_losses_come_back_from_the_file_to_the_last_bit() -> None:
    (row,) = csv.DictReader(metrics_csv([result([1, 4, 40, 0.1 + 0.2, 1 / 3])]).splitlines())
    assert (float(row["train_loss"]), float(row["train_mean_token_accuracy"])) == (0.1 + 0.2, 1 / 3)
