"""How models are named on the hub; known without the libraries that fetch them."""

import re

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
