"""Sphinx's configuration of the site. `make book` builds it; see README.md."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from book.sources import BUILD, PLAYGROUND, PLAYGROUND_IN_SITE  # noqa: E402

_about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

project = _about["name"]
release = version = _about["version"]
project_copyright = "the authors of minipaged; Apache-2.0"
extensions = ["myst_nb", "book.texts", "book.pages", "book.sought"]
exclude_patterns = ["figures"]
language = "en"

# What is stored is shown; nothing is run.
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["static", str(BUILD / "static")]
html_favicon = "static/icon.svg"
html_css_files = ["scenes.css", "site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_extra_path = [str(PLAYGROUND_IN_SITE)] if PLAYGROUND.exists() else []
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_use_index = False
toc_object_entries = False
add_module_names = False
maximum_signature_line_length = 72
python_display_short_literal_types = True
html_theme_options = {
    "repository_url": _about["urls"]["Source"],
    "use_repository_button": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "navbar_persistent": [],
    "footer_content_items": ["copyright.html"],
}
html_context = {"default_mode": "auto"}
