"""The colours of a drawn actor, in light and in dark, and the marks of what becomes of a state whose process dies."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.actors.state import Resume

STYLE = """
.towpath-actor { --ink: #1f2933; --soft: #52606d; --paper: #ffffff; --box: #f1f5f9; --line: #64748b;
  --good: #15803d; --bad: #b91c1c; --mark: #1d4ed8; background: var(--paper); }
@media (prefers-color-scheme: dark) { .towpath-actor { --ink: #e5e9f0; --soft: #b3bdca; --paper: #14181f;
  --box: #232a35; --line: #8492a6; --good: #4ade80; --bad: #f87171; --mark: #93c5fd; } }
.towpath-actor text { fill: var(--ink); font: 14px system-ui, sans-serif; }
.towpath-actor .box { fill: var(--box); stroke: var(--line); stroke-width: 1.2; }
.towpath-actor .inner { fill: none; }
.towpath-actor .good { stroke: var(--good); }
.towpath-actor .bad { stroke: var(--bad); }
.towpath-actor .move { fill: none; stroke: var(--line); stroke-width: 1.4; }
.towpath-actor .tip, .towpath-actor .dot { fill: var(--line); }
.towpath-actor .label { fill: var(--soft); font-size: 12px; stroke: var(--paper); stroke-width: 4px;
  paint-order: stroke; }
.towpath-actor .mark { fill: none; stroke: var(--mark); stroke-width: 1.6; stroke-linecap: round;
  stroke-linejoin: round; }
.towpath-actor .legend { fill: var(--soft); font-size: 12px; }
"""

# Only where a state is lit, so that other pictures stay as they are.
LIT_STYLE = """.towpath-actor { --lit: #fde68a; --edge: #b45309; }
@media (prefers-color-scheme: dark) { .towpath-actor { --lit: #78350f; --edge: #fbbf24; } }
.towpath-actor .lit { fill: var(--lit); stroke: var(--edge); stroke-width: 2.4; }
"""

# Each in a square of 12 by 12 around its middle.
MARKS: Mapping[str, str] = {
    Resume.RETRY: "M 3.4 -3.4 A 4.8 4.8 0 1 0 4.8 0.8 M 4.2 -6.2 L 3.6 -3 L 0.4 -3.6",  # an arrow that comes round
    Resume.RESTART: "M -4.5 -5 L -4.5 5 M 4.5 -4.5 L -2 0 L 4.5 4.5 Z",  # back to the bar at the beginning
    Resume.FAIL: "M -4 -4 L 4 4 M 4 -4 L -4 4",  # a cross
}
