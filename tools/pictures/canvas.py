# SPDX-License-Identifier: GPL-2.0
"""A drawing in SVG, of boxes, text and arrows in the colours of the other drawings."""

from xml.sax.saxutils import escape

INK, PAPER, GROUP, BOX = "#333333", "#ffffff", "#fafafa", "#eef3fa"
OURS, LOST = "#dbe8d4", "#b03030"


class Canvas:
    """A drawing. Places and sizes are in pixels; y is of a text's base line."""

    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif">',
            f"<title>{escape(title)}</title>",
            "<defs>",
        ]
        for name, colour in (("a", INK), ("l", LOST)):
            self.parts += [
                f'  <marker id="{name}" markerWidth="9" markerHeight="8" refX="8" refY="4" '
                'orient="auto" markerUnits="userSpaceOnUse">',
                f'    <path d="M0 0L9 4L0 8z" fill="{colour}" />',
                "  </marker>",
            ]
        self.parts += ["</defs>", f'<rect width="100%" height="100%" fill="{PAPER}" />']

    def text(self, x, y, text, anchor="start", size=12, bold=False, fill=INK):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}" '
            f'font-size="{size}"{weight}>{escape(text)}</text>'
        )

    def box(self, x, y, width, height, lines=(), fill=BOX, bold=True, dashed=False):
        """A box with these lines in its middle, the first of them larger."""
        style = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" '
            f'stroke="{INK}"{style} />'
        )
        first = y + height / 2 + 4.5 - 8 * (len(lines) - 1)
        for at, line in enumerate(lines):
            self.text(
                x + width / 2,
                first + 16 * at,
                line,
                "middle",
                13 if at == 0 and bold else 12,
                at == 0 and bold,
            )

    def group(self, x, y, width, height, title):
        """A box around others, with its title at the top."""
        self.box(x, y, width, height, fill=GROUP)
        self.text(x + 10, y + 18, title, bold=True, size=13)

    def line(self, *points, arrow=True, dashed=False, lost=False):
        """A line through these points, (x, y) each, with an arrow at its end."""
        colour = LOST if lost else INK
        style = f' marker-end="url(#{"l" if lost else "a"})"' if arrow else ""
        style += ' stroke-dasharray="4 4"' if dashed else ""
        path = "L".join(f"{x} {y}" for x, y in points)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}"{style} />')

    def svg(self):
        body = "\n".join("  " + part for part in self.parts[1:])
        return f"{self.parts[0]}\n{body}\n</svg>\n"
