# SPDX-License-Identifier: GPL-2.0
"""How Sphinx makes HTML of these documents (make docs).

The documents link to each other by the names of their files, as forges show them. Here such a link
becomes one to the page, and a link to a file that is no page takes a copy of that file along.
"""

import pathlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

project = "oxe"
html_theme = "alabaster"
html_theme_options = {
    "description": "soft-RoCEv2 for Linux",
    "page_width": "1000px",
    "show_powered_by": False,
}
html_copy_source = False
html_last_updated_fmt = ""
highlight_language = "none"
root_doc = "index"

PAGE = re.compile(r"<([\w./-]+)\.rst>`_")


class Links(SphinxTransform):
    """Links to files of the repository."""

    default_priority = 400

    def apply(self):
        here = pathlib.Path(self.env.doc2path(self.env.docname)).parent
        for link in list(self.document.findall(nodes.reference)):
            uri, _, section = link.get("refuri", "").partition("#")
            if not uri or ":" in uri or section:
                continue
            name = pathlib.PurePosixPath(uri)
            page = addnodes.download_reference(
                reftarget=uri, refdoc=self.env.docname, refdomain="", reftype="download"
            )
            if name.suffix == ".rst" and (here / name).is_file():
                page = addnodes.pending_xref(
                    reftarget=str(name.with_suffix("")),
                    refdoc=self.env.docname,
                    refdomain="std",
                    reftype="doc",
                    refexplicit=True,
                    refwarn=True,
                )
            page += nodes.inline("", link.astext())
            link.replace_self(page)


def contents(_, name, source):
    """The index lists the pages for readers; Sphinx has that order from the same links."""
    if name == root_doc:
        pages = dict.fromkeys(PAGE.findall(source[0]))
        source[0] += "\n.. toctree::\n   :hidden:\n\n" + "".join(f"   {page}\n" for page in pages)


def setup(app):
    app.connect("source-read", contents)
    app.add_transform(Links)
    return {"parallel_read_safe": True}
