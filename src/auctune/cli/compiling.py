"""What the first command on a machine waits for."""


def tell_compiling(kernel: str, whose: str) -> None:
    """Say on stderr that a command must wait for the compiler, if it must.

    Args:
        kernel: one that calls the others, or is called last.
        whose: of kernels, as in `the edge's`.
    """
    import typer

    from auctune.numerics.jit import compiling, kernels_are_compiled

    if not kernels_are_compiled(kernel):
        typer.echo(compiling(whose), err=True)
