"""How the page looks, and the policy that lets a browser run nothing and load nothing."""

import base64
from hashlib import sha256
from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1c1e; --dim: #6b6b70; --line: #d9d9de; --soft: #f5f5f7;
  --you: #0b62c4; --model: #1d7a3a; --bad: #b3261e; --add: #e3f6e6; --del: #fde7e5; }
@media (prefers-color-scheme: dark) { :root { --back: #16171a; --text: #e6e6ea; --dim: #9a9aa2; --line: #34353b;
  --soft: #1f2024; --you: #7db5ff; --model: #7fd394; --bad: #ff8a80; --add: #173a20; --del: #46201d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 60rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 1rem; }
dt, time, footer, p.remark, span.usage { color: var(--dim); }
dd { margin: 0; }
article, section { border-top: 1px solid var(--line); padding: 1rem 0; }
article.user h2 { color: var(--you); }
article.assistant h2 { color: var(--model); }
time, span.usage { font-weight: normal; font-size: .85rem; margin-left: .6rem; }
p.text { white-space: pre-wrap; margin: 0 0 .75rem; }
p.remark { font-size: .9rem; margin: .25rem 0; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .75rem; margin: 0 0 .75rem;
  overflow-x: auto; font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; }
details { margin: 0 0 .5rem; }
summary { cursor: pointer; font: 13px/1.5 ui-monospace, monospace; }
details > pre, details > p, details > img { margin-top: .5rem; }
details.failed > summary { color: var(--bad); }
details.thinking > p { color: var(--dim); }
span.add { background: var(--add); }
span.del { background: var(--del); }
span.place { color: var(--dim); }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; }
a { color: var(--you); }
@media print { details > summary { list-style: none; } body { max-width: none; } }
"""

_STYLE_HASH: Final = base64.b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""No script, no frame, no address: of styles, ours alone, and of images, those that are in the page itself."""
