import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from auctune.train.peak_memory import held_bytes, peak_bytes

CPU = torch.device("cpu")


def test_what_lives_at_the_same_time_is_counted_together() -> None:
    before = torch.zeros(1000)

    def work() -> None:
        a = torch.zeros(1000)  # 4,000 bytes
        b = a + before  # 8,000
        del a  # 4,000
        c = b * 2  # 8,000
        view = c[10:].view(-1, 2)  # a view takes nothing
        view.add_(1)
        torch.zeros(500)  # 10,000, and gone at once

    assert peak_bytes(work, CPU) == 10_000
    assert held_bytes(CPU) == 0


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=10))
def test_a_chain_holds_two_links_at_a_time(sizes: list[int]) -> None:
    def work() -> None:
        chain = [torch.zeros(0)]
        for size in sizes:
            chain[0] = torch.zeros(size)

    pairs = zip([0, *sizes], sizes, strict=False)
    assert peak_bytes(work, CPU) == 4 * max(a + b for a, b in pairs)


def test_what_a_backward_pass_needs_is_counted() -> None:
    layers = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4)))
    layers.requires_grad_(False)
    x = torch.ones(32, 64, requires_grad=True)
    one = 32 * 64 * 4

    def forward() -> None:
        with torch.no_grad():
            layers(x)

    def backward() -> None:
        torch.autograd.backward((layers(x) ** 2).sum())

    # A chain of frozen layers keeps nothing but two neighbours, the square its input.
    assert peak_bytes(forward, CPU) == 2 * one
    assert peak_bytes(backward, CPU) > 3 * one
