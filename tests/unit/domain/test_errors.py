import pickle

from auctune.domain import InputError


def test_an_input_error_says_place_found_and_expected_in_one_line() -> None:
    error = InputError("tasks[3].deadline", "2 is before arrival 5", "a slot >= arrival")
    assert str(error) == "tasks[3].deadline: 2 is before arrival 5; expected a slot >= arrival"


def test_an_input_error_survives_pickling() -> None:
    error = InputError("a", "b", "c")
    again = pickle.loads(pickle.dumps(error))
    assert (again.place, again.found, again.expected) == ("a", "b", "c")
    assert str(again) == str(error)


def test_an_input_error_can_be_placed_in_a_file() -> None:
    assert str(InputError("a", "b", "c").within("f.json")) == "f.json: a: b; expected c"
    assert str(InputError("a", "b", "c").at("--a")) == "--a: b; expected c"
