"""The imports between the packages, drawn as docs/layers.svg, and the counts of the source in docs/design.md.

``python -m tests.project.graph`` draws the picture and prints the counts; ``--counts FOLDER`` counts another tree.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.project.source import PACKAGE, ROOT, nodes_at
from tests.project.test_layers import LAYERS, MODULES, ROOMS, imported_by, part_of, room_of

PICTURE = ROOT / "docs" / "layers.svg"
MOST_POSITIONAL = 5
Edges = list[tuple[str, str]]


def edges() -> dict[str, Edges]:
    """The imports among the packages, and among the subpackages of the engine."""
    found: dict[str, set[tuple[str, str]]] = {"packages": set(), "engine": set()}
    shown = {part for layer in LAYERS for part in layer} - {"lowtide", "__main__"}
    for module in MODULES:
        for name in imported_by(module):
            found["packages"].add((part_of(module), part_of(name)))
            found["engine"].add((room_of("engine", module), room_of("engine", name)))
    return {
        "packages": sorted((a, b) for a, b in found["packages"] if a != b and {a, b} <= shown),
        "engine": sorted((a, b) for a, b in found["engine"] if a != b and a and b),
    }


def drawn_edges() -> dict[str, Edges]:
    """The edges that the picture was drawn from; it carries them in its description."""
    text = re.search(r"<dc:description>(.*?)</dc:description>", PICTURE.read_text(), re.DOTALL)
    assert text is not None
    return {name: [(a, b) for a, b in each] for name, each in json.loads(text[1].replace("&quot;", '"')).items()}


def direct(found: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that no longer way stands for."""
    below: dict[str, set[str]] = {}
    for a, b in found:
        below.setdefault(a, set()).add(b)

    def reach(a: str) -> set[str]:
        return {each for b in below.get(a, ()) for each in (b, *reach(b))}

    return {(a, b) for a, b in found if not any(b in reach(other) for other in below[a] - {b})}


def draw(picture: Path) -> None:
    """Low layers are at the bottom. An arrow leads from the importer to what it imports, pale if a longer path does."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from bench.publish import lightened

    found = edges()
    rows = [tuple(part for part in layer if part not in ("lowtide", "__main__")) for layer in LAYERS]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "layers"}):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 7), width_ratios=(3, 2))
        panel(left, "packages of lowtide", [row for row in rows if row], found["packages"])
        panel(right, "rooms of lowtide.engine", [(room,) for room in ROOMS["engine"]], found["engine"])
        figure.tight_layout()
        figure.savefig(picture, metadata={"Description": json.dumps(found), "Date": None})
    pyplot.close(figure)
    picture.write_text(lightened(picture.read_text()))


def panel(axes: Any, title: str, rows: Sequence[Sequence[str]], found: Edges) -> None:
    places = {
        name: ((index + 0.5) / len(row), height) for height, row in enumerate(rows) for index, name in enumerate(row)
    }
    clear = direct(found)
    for a, b in found:
        hidden = places[a][0] == places[b][0] and places[a][1] - places[b][1] > 1
        bend = 0.0 if (a, b) in clear and not hidden else 0.35 if places[a][1] % 2 else -0.35
        style = {"arrowstyle": "-|>", "connectionstyle": f"arc3,rad={bend}", "shrinkA": 12, "shrinkB": 12}
        color, width = ("#1f4e79", 1.4) if (a, b) in clear else ("#b8c4d0", 0.6)
        axes.annotate("", places[b], places[a], arrowprops={**style, "color": color, "lw": width})
    for name, (x, y) in places.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "#eaf1f8", "edgecolor": "#1f4e79"}
        axes.text(x, y, name, ha="center", va="center", fontsize=10, bbox=box, zorder=3)
    axes.set_title(title, fontsize=11)
    axes.set_xlim(-0.1, 1.1)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.axis("off")


def counts(package: Path) -> dict[str, int]:
    """What the table of docs/design.md counts, of the source under ``package``."""
    files = {path: nodes_at(path) for path in sorted(package.rglob("*.py"))}
    classes = Counter(node.name for nodes in files.values() for node in nodes if isinstance(node, ast.ClassDef))
    return {
        "modules": len(files),
        "loose modules": sum(path.parent == package and not path.name.startswith("__") for path in files),
        "private accesses": sum(private_accesses(nodes) for nodes in files.values()),
        "calls with more than five positional arguments": sum(long_calls(nodes) for nodes in files.values()),
        "class names defined twice": sum(number > 1 for number in classes.values()),
    }


def private_accesses(nodes: Sequence[ast.AST]) -> int:
    """How often a name with an underscore is asked of an object, where this module does not define that name."""
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    own |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    asked = [node for node in nodes if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr)]
    own |= {node.attr for node in asked if is_self(node.value) and isinstance(node.ctx, ast.Store)}
    return sum(node.attr not in own and not is_self(node.value) for node in asked)


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def long_calls(nodes: Sequence[ast.AST]) -> int:
    return sum(isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL for node in nodes)


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--counts"]:
        package = Path(arguments[1])
    else:
        package = PACKAGE
        draw(PICTURE)
    for what, number in counts(package).items():
        print(f"{number:5} {what}")


if __name__ == "__main__":
    main(sys.argv[1:])
