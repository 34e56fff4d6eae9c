# SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes the book: Markdown by MyST, pages by Furo, nothing from a network. tools/docs.sh calls it."""

project = "SambaFlow"
html_title = "SambaFlow"
root_doc = "index"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4  # links name headings as the repository's pages do
myst_all_links_external = False
highlight_language = "none"
html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_search_summary = False  # a page from file:// may read no other
html_static_path = ["static"]
html_css_files = ["book.css"]
maximum_signature_line_length = 100
toc_object_entries = False  # each page would carry all names of all pages; C pages begin with a list of theirs
add_module_names = False
