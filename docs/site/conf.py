"""The site built from docs/ by `make docs`: MyST pages and docstrings, by Sphinx, in furo."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from auctune import __version__

project = "auctune"
version = release = __version__
copyright = "the authors of auctune"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docstrings"]
root_doc = "index"
# The way in for who reads the pages in the repository; the site has its own.
exclude_patterns = ["README.md", "site"]

myst_enable_extensions = ["colon_fence"]
# Links name headings as GitHub does.
myst_heading_anchors = 5

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_use_rtype = False
# With the types that the signature has already they would be said twice.
napoleon_custom_sections = [("Attributes", "params_style")]
add_module_names = False
# Counted with the full names of types, of which the last part is shown.
python_maximum_signature_line_length = 140
python_use_unqualified_type_names = True

# A word of a Literal that several classes have as an attribute is no broken link.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = f"auctune {release}"
html_static_path = ["static"]
html_css_files = ["auctune.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"source_repository": "", "navigation_with_keys": False}
# Of blocks that name no language, which here are formulas and output.
highlight_language = "none"
pygments_style = "default"
pygments_dark_style = "github-dark"
