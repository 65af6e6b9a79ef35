"""KEY=VALUE texts of the command line."""

from auctune.domain.errors import InputError


def parse_settings(
    given: list[str], option: str = "--set", form: str = "KEY=VALUE"
) -> dict[str, str]:
    """KEY=VALUE texts, given as `option`, as a mapping; `form` is how a user knows them.

    Raises:
        InputError: for one without `=`, without a key, or with a key that came before.
    """
    settings: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(option, repr(text), form)
        if key in settings:
            raise InputError(option, f"{key!r} is given twice", "each key once")
        settings[key] = value
    return settings
