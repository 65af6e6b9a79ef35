"""How long tests wait for what has to come: no test fails because the machine is slow or busy."""

WAIT_SECONDS = 600.0
WAIT_MS = 1000.0 * WAIT_SECONDS
