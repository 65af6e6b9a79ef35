from auctune.numerics.rng import stream


def test_a_stream_is_the_same_whenever_it_is_asked_for() -> None:
    first = stream(1, "vendor", "t3").random(4)
    stream(1, "vendor", "t4").random(4)
    assert stream(1, "vendor", "t3").random(4).tolist() == first.tolist()


def test_streams_differ_by_seed_name_and_kind_of_name() -> None:
    streams = [
        stream(0, "a"),
        stream(1, "a"),
        stream(0, "b"),
        stream(0, "a", 1),
        stream(0, "a", "1"),
    ]
    assert len({generator.random() for generator in streams}) == len(streams)
