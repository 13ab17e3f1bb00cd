"""What mkdocs needs so that the same Markdown works on GitHub and on the site."""

from __future__ import annotations

import logging
import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks.evenglot")  # a warning here fails a strict build

UPWARDS = re.compile(r"\]\((\.\./[^)\s#]*)(#[^)\s]*)?\)")
PICTURES = {".svg", ".png"}
EXTERNAL_ASSET = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"[^>]*>")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name headings as GitHub does, so that one link to a heading works in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_anchor
    return config


def github_anchor(heading: str, separator: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Send links that leave docs/ to the repository, and copy the pictures they name into the site."""
    docs = Path(config.docs_dir)
    root = docs.parent

    def replace(found: re.Match[str]) -> str:
        link, anchor = found[1], found[2] or ""
        target = Path(os.path.normpath(docs / page.file.src_uri / ".." / link))
        if target.is_relative_to(docs):
            return found[0]
        if not target.exists() or not target.is_relative_to(root):
            log.warning("%s: no such file in the repository: %s", page.file.src_uri, link)
            return found[0]
        path = target.relative_to(root).as_posix()
        if target.suffix in PICTURES:
            return f"]({_copied(path, target, page, config, files)})"
        kind = "tree" if target.is_dir() else "blob"
        return f"]({config.extra['repository']}/{kind}/main/{path}{anchor})"

    return UPWARDS.sub(replace, markdown)


def _copied(path: str, target: Path, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = f"repository/{path}"
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, abs_src_path=str(target)))
    return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse whatever a reader's browser would fetch from elsewhere."""
    for asset in EXTERNAL_ASSET.findall(output):
        log.warning("%s: external asset: %s", page.file.src_uri, asset)
    return output
