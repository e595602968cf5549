# SPDX-License-Identifier: Apache-2.0
"""What mkdocs calls: links to folders, of which a site has no page, become texts, and pages with diagrams load mermaid.js,
which comes from a Python package and not from another host."""

import importlib.util
import os
import re

from mkdocs.structure.files import File

SCRIPT = "assets/mermaid.js"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#\s]+)\)")


def on_files(files, *, config):
    package = importlib.util.find_spec("mermaidx").submodule_search_locations[0]
    files.append(File.generated(config, SCRIPT, abs_src_path=os.path.join(package, "assets/mermaid.js")))
    return files


def on_page_markdown(markdown, *, page, config, files):
    folder = os.path.dirname(page.file.abs_src_path)
    return LINK.sub(lambda link: link[1] if os.path.isdir(os.path.join(folder, link[2])) else link[0], markdown)


def on_post_page(output, *, page, config):
    if '<pre class="mermaid">' not in output:
        return output
    script = f'<script src="{os.path.relpath(SCRIPT, os.path.dirname(page.url))}"></script>'
    return output.replace("<script src=", f"{script}<script src=", 1)  # before the theme's, which else asks another host


def on_page_content(html, *, page, config, files):
    """A diagram may be wider than the page (site.css)."""
    return re.sub(r'<pre class="mermaid">.*?</pre>', r'<div class="diagram">\g<0></div>', html, flags=re.S)
