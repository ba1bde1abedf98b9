# SPDX-License-Identifier: GPL-2.0
"""Boxes, lines and text of a drawing, as SVG."""

import textwrap
import xml.etree.ElementTree as xml

LINE = 16
INK, PAPER, MODULE, PART = "#333333", "#ffffff", "#eef3fa", "#fafafa"


class Box:
    """A frame with a title and lines of text, and its place."""

    def __init__(self, name, titles, x, y, width):
        self.lines = textwrap.wrap(
            ", ".join(sorted(titles)), int((width - 20) / 6.7), break_on_hyphens=False
        )
        self.name, self.x, self.y, self.width = name, x, y, width
        self.height = LINE * (len(self.lines) + 1) + 14

    @property
    def bottom(self):
        return self.y + self.height

    @property
    def middle(self):
        return self.x + self.width / 2


class Drawing:
    """A picture of a width and a height."""

    def __init__(self, width, height):
        self.svg = xml.Element(
            "svg",
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height:.0f}",
            **{"font-family": "sans-serif"},
        )
        marker = xml.SubElement(
            xml.SubElement(self.svg, "defs"),
            "marker",
            id="a",
            markerWidth="8",
            markerHeight="8",
            refX="2",
            refY="4",
            orient="auto",
            markerUnits="userSpaceOnUse",
        )
        xml.SubElement(marker, "path", d="M0 0L8 4L0 8z", fill=INK)
        xml.SubElement(self.svg, "rect", width="100%", height="100%", fill=PAPER)

    def __str__(self):
        xml.indent(self.svg)
        return xml.tostring(self.svg, encoding="unicode") + "\n"

    def text(self, content, x, y, **style):
        element = xml.SubElement(
            self.svg,
            "text",
            x=f"{x:.0f}",
            y=f"{y:.0f}",
            fill=INK,
            **{name.replace("_", "-"): value for name, value in style.items()},
        )
        element.text = content

    def line(self, path, count, at):
        """A line with its arrow and its number: the larger that is, the thicker is the line."""
        width = 1 + min(count, 24) / 8
        xml.SubElement(
            self.svg,
            "path",
            d=path,
            fill="none",
            stroke=INK,
            **{"stroke-width": f"{width:.1f}", "marker-end": "url(#a)"},
        )
        halo = {"stroke": PART, "font_size": "11", "stroke_width": "3", "paint_order": "stroke"}
        self.text(str(count), *at, **halo)

    def box(self, box, fill, title=None):
        xml.SubElement(
            self.svg,
            "rect",
            x=f"{box.x:.0f}",
            y=f"{box.y:.0f}",
            width=f"{box.width:.0f}",
            height=f"{box.height:.0f}",
            rx="6",
            fill=fill,
            stroke=INK,
        )
        for at, line in enumerate([title or box.name] + box.lines):
            style = {"font_size": "12"} if at else {"font_size": "13", "font_weight": "bold"}
            self.text(line, box.x + 10, box.y + LINE * (at + 1) + 2, **style)
