"""The HTML page of an indexer: what it is, its statistics, and a search form.

It is plain HTML without scripts; everything from the network is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from argosy import __version__
from argosy.ipni.model import IndexerStatus, ProviderResult, StoreStats

# Provider records come from strangers. Escaping keeps them out of the markup; these headers stop what would get
# through.
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
# A provider may have a thousand; the API has them all.
ADDRESSES_SHOWN_MAX = 4

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --faint: #66717f; --line: #d8dee6; --paper: #fbfcfd; --sea: #0b6e8a }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --faint: #94a1b0; --line: #2c3642; --paper: #12181f; --sea: #55b8d4 }
}
body { margin: 0 auto; max-width: 54rem; padding: 3rem 1.25rem; background: var(--paper); color: var(--ink);
       font: 16px/1.55 system-ui, sans-serif }
h1 { font-size: 1.7rem; margin: 0 } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem }
p { margin: .4rem 0 } a { color: var(--sea) } .faint { color: var(--faint) }
code, input, td { font: .875rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1rem; margin: 1.6rem 0 }
dt { color: var(--faint); font-size: .8rem } dd { margin: 0; font-size: 1.3rem }
form { display: flex; gap: .5rem; margin: 1.6rem 0 }
input { flex: 1; min-width: 0; padding: .6rem .7rem; border: 1px solid var(--line); border-radius: 6px;
        background: transparent; color: inherit }
button { padding: .6rem 1.1rem; border: 0; border-radius: 6px; background: var(--sea); color: var(--paper);
         font-weight: 600 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; vertical-align: top; padding: .45rem .6rem;
         border-bottom: 1px solid var(--line) } th { color: var(--faint); font-size: .8rem; font-weight: 500 }
"""

_ROUTES = (
    ("/cid/{cid}", "providers of the content with this CID"),
    ("/multihash/{multihash}", "the same, by multihash in base58 or hexadecimal"),
    ("/routing/v1/providers/{cid}", "the same, as delegated routing"),
    ("/encrypted/multihash/{hash}", "the same, by second hash (double-hashed)"),
    ("/providers", "known providers"),
    ("/stats", "number of entries"),
    ("/sync/status", "sync status of the publishers"),
    ("/health", "health of this node"),
)


@dataclass(frozen=True)
class FindForm:
    """The form's query and its results; `total` may exceed what `found` shows."""

    text: str
    found: Sequence[ProviderResult] = ()
    total: int = 0
    problem: str = ""


def render(status: IndexerStatus, stats: StoreStats, providers: int, form: FindForm | None = None) -> str:
    document = "" if form is None else _answer(form)
    return _document(f"""\
<p class="faint">This node indexes which providers have which content, by its hash. It implements IPNI.</p>
<dl>
<div><dt>entries</dt><dd>{stats.entries:,}</dd></div>
<div><dt>providers</dt><dd>{providers:,}</dd></div>
<div><dt>on disk</dt><dd>{_size(stats.disk_bytes)}</dd></div>
<div><dt>state</dt><dd>{"frozen" if status.is_frozen else "ingesting"}</dd></div>
</dl>
<form action="/" method="get" role="search">
<input name="q" aria-label="CID or multihash" placeholder="a CID or a multihash" value="{_text(form)}" required>
<button>Find</button>
</form>
{document}
{_routes("API")}
<p class="faint">Answers are JSON, or lines of it for <code>accept: application/x-ndjson</code>.
The protocol is described at <a href="https://docs.ipni.io/" rel="noreferrer">docs.ipni.io</a>.</p>
<p class="faint">Node <code>{escape(status.id)}</code>, Argosy {escape(__version__)}</p>""")


def render_error(status: int, message: str) -> str:
    """Error page for a browser, with links to existing pages."""
    return _document(f"""\
<p role="alert">Error {status}: {escape(message)}.</p>
<p><a href="/">Find content by CID or multihash</a></p>
{_routes("Pages")}""")


def _document(body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Argosy content index</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Argosy content index</h1>
{body}
</body>
</html>
"""


def _routes(title: str) -> str:
    return f"<h2>{title}</h2>\n<table>{''.join(_route(*each) for each in _ROUTES)}</table>"


def _text(form: FindForm | None) -> str:
    return "" if form is None else escape(form.text)


def _answer(form: FindForm) -> str:
    if form.problem:
        return f'<p role="alert">{escape(form.problem)}</p>'
    if not form.found:
        return '<p role="status">No providers found.</p>'
    more = f", the first {len(form.found)} of them" if form.total > len(form.found) else ""
    noun = "result" if form.total == 1 else "results"
    rows = "".join(_row(result) for result in form.found)
    return (
        f'<p role="status">{form.total:,} {noun}{more}</p>'
        f"<table><tr><th>provider</th><th>addresses</th><th>context</th></tr>{rows}</table>"
    )


def _row(result: ProviderResult) -> str:
    addresses = [escape(address) for address in result.provider.addresses[:ADDRESSES_SHOWN_MAX]]
    if len(result.provider.addresses) > ADDRESSES_SHOWN_MAX:
        addresses.append("…")
    context = result.context.decode(errors="replace")
    # Contexts are bytes: many are readable names, the others are shown in hexadecimal.
    context = context if context.isprintable() and "\ufffd" not in context else result.context.hex()
    id = escape(result.provider.id)
    cells = (f'<a href="/providers/{id}">{id}</a>', "<br>".join(addresses), escape(context))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _route(path: str, meaning: str) -> str:
    name = f"<code>{escape(path)}</code>"
    if "{" not in path:
        name = f'<a href="{escape(path)}">{name}</a>'
    return f"<tr><td>{name}</td><td>{escape(meaning)}</td></tr>"


def _size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
