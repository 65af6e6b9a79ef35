"""Random identifiers: a prefix with the type, and 24 letters and digits."""

import secrets
import string

JOB_ID = r"ftjob-[A-Za-z0-9]{1,64}"
"""Pattern of the id of a job."""
_LETTERS = string.ascii_letters + string.digits
_LENGTH = 24


def new_id(prefix: str) -> str:
    """Return a new identifier, such as ftjob-3fK..., which cannot be guessed."""
    return prefix + "-" + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
