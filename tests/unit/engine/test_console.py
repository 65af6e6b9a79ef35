"""Progress without a terminal: a line for each step, and for one that takes long more of them."""

from auctune.engine.console import LINE_SECONDS, ProgressLines


def test_a_step_has_a_line_at_its_start_and_one_each_ten_seconds() -> None:
    now = 0.0
    lines = ProgressLines(lambda: now)
    printed = []
    for second in range(35):
        now = float(second)
        printed.append(lines.line("measuring", second / 100))
    assert LINE_SECONDS == 10.0
    assert [line for line in printed if line] == [
        "measuring ...",
        "measuring: 10% after 10 s",
        "measuring: 20% after 20 s",
        "measuring: 30% after 30 s",
    ]
    assert lines.line("done", 1.0) == ""
    assert lines.line("opening", 0.0) == "opening ..."
    now = 100.0
    # Nothing is known of how far it is.
    assert lines.line("opening", 0.0) == ""
