"""How the site is built: `make docs` reads this. What it adds to Sphinx is in `site/`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

import hardmax

project = "hardmax"
author = "The hardmax developers"
copyright = "The hardmax developers, MIT licence"
release = version = hardmax.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # Of this folder:
    "mathml",
    "line_breaks",
    "drawn",
    "live_explorer",
    "docstrings",
    "name_links",
    "made_pages",
]
exclude_patterns = ["site", "README.md"]
root_doc = "index"

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 3

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
add_module_names = False
napoleon_use_rtype = False
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]
toc_object_entries_show_parents = "hide"
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "monokai"

html_theme = "furo"
html_title = "hardmax"
html_static_path = ["static"]
html_favicon = "static/favicon.svg"
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
