"""The explorer in a browser without a GPU: when it can be used, and how smoothly pictures and tables move.

    ./dev bench explorer [--small]

A real server, and Chromium before it. `--small` has a hundredth of the edges in the graph of the overview; the
bars are meant for 2.4 million. Frames are what the browser shows while a picture is dragged and zoomed, or a table
scrolled, in every frame anew; the longest task is the longest time the page answers no input meanwhile, on the clock
and, for machines that have other things to do, in processor time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa

import omnigraph
from benchmarks.serving.figures import Figure
from benchmarks.serving.processes import Server, serving

SCHEMA = "node Dot { name: String @key }\nedge Links: Dot -> Dot"
NODES, EDGES, LARGE_EDGES, ROWS = 5_000, 10_000, 2_400_000, 10_000
PICTURE = "query all() { match { $a: Dot  $a links $b } return { $a, $b } }"
TABLE = f"query rows() {{ match {{ $a: Dot }} return {{ $a.name as name, id($a) as id }} limit {ROWS} }}"
DRAWN = ".scene[data-settled=true]:not([data-nodes='0'])"
BUILT = Path(omnigraph.__file__).parent / "explorer" / "static"
SECONDS = 4

MOVING = """async ([selector, seconds, way]) => {
    const element = document.querySelector(selector), box = element.getBoundingClientRect();
    let longest = 0, frames = 0, rows = 0;
    const observer = new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) longest = Math.max(longest, entry.duration);
    });
    observer.observe({entryTypes: ["longtask"]});
    const at = (type, x, y) => element.dispatchEvent(new PointerEvent(type, {
        bubbles: true, pointerId: 1, button: 0, buttons: 1, clientX: x, clientY: y}));
    const middle = [box.left + box.width / 2, box.top + 60];
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const began = performance.now();
    if (way === "pan") { element.setPointerCapture = () => undefined; at("pointerdown", ...middle); }
    while (performance.now() - began < 1000 * seconds) {
        const turn = frames / 12;
        if (way === "pan") at("pointermove", middle[0] + 120 * Math.sin(turn), middle[1] + 90 * Math.cos(turn));
        else if (way === "zoom") element.dispatchEvent(new WheelEvent("wheel", {
            bubbles: true, cancelable: true, deltaY: 60 * Math.sin(turn), clientX: middle[0], clientY: middle[1]}));
        else element.scrollTop += 90;
        await frame();
        frames++;
        rows = Math.max(rows, document.querySelectorAll(".all .tr").length);
    }
    if (way === "pan") at("pointerup", ...middle);
    const spent = performance.now() - began;
    await new Promise((resolve) => setTimeout(resolve, 100));
    observer.disconnect();
    return {frames: 1000 * frames / spent, longest, rows};
}"""


def make_dots(place: Path, nodes: int, edges: int) -> None:
    """Dots, and edges between them at random, about as many as asked for."""
    draw = np.random.default_rng(3)
    names = pa.array([f"d{at:07}" for at in range(nodes)])
    with omnigraph.init(place, SCHEMA) as graph:
        graph.load_nodes("Dot", pa.table({"name": names}), mode="append")
        # Each dot has an edge, so that a match over edges finds all of them.
        starts = np.concatenate([np.arange(nodes), draw.integers(0, nodes, edges - nodes)])
        ends = draw.integers(0, nodes, edges)
        frame = pa.table({"from": names.take(pa.array(starts)), "to": names.take(pa.array(ends))})
        graph.load_edges("Links", frame, mode="append")


def new_page(browser: Any, *, calm: bool) -> Any:
    """A page of a browser that has never been there."""
    motion = "reduce" if calm else "no-preference"
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion=motion)
    context.set_default_timeout(120_000)
    return context.new_page()


def link(graph: str, text: str) -> str:
    """The fragment that brings a query along."""
    return f"#/query?{urlencode({'graph': graph, 'text': text})}"


def first_look(browser: Any, server: Server) -> list[Figure]:
    """How soon the first page can be used, and its picture is there."""
    page = new_page(browser, calm=True)
    page.goto(f"http://{server.host}:{server.port}/ui/#/overview?graph=large")
    page.wait_for_selector(".nav")
    interactive = page.evaluate("() => performance.now()") / 1000
    began = perf_counter()
    page.wait_for_selector(DRAWN)
    drawn = perf_counter() - began
    page.context.close()
    return [
        Figure("first page interactive", f"{interactive:.2f} s", interactive, 1.5),
        Figure("picture of the overview, after that", f"{drawn:.2f} s", drawn, 2.0),
    ]


def moving(browser: Any, server: Server) -> list[Figure]:
    """Frames of a picture of 5,000 nodes and 10,000 edges, while it finds its places and afterwards."""
    page = new_page(browser, calm=False)
    page.goto(f"http://{server.host}:{server.port}/ui/{link('dots', PICTURE)}")
    page.wait_for_selector(".cm-content")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".scene[data-nodes='{NODES}']")
    figures = measure(page, ".stage", "pan", "dragging while places are found")
    page.wait_for_selector(f".result {DRAWN}")
    figures += measure(page, ".stage", "pan", "dragging")
    figures += measure(page, ".stage", "zoom", "zooming")
    page.context.close()
    return figures


def scrolling(browser: Any, server: Server) -> list[Figure]:
    """Frames of a table of 10,000 rows."""
    page = new_page(browser, calm=True)
    page.goto(f"http://{server.host}:{server.port}/ui/{link('large', TABLE)}")
    page.wait_for_selector(".cm-content")
    page.keyboard.press("Alt+2")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".all .tr")
    figures = measure(page, ".table", "scroll", f"scrolling {ROWS:,} rows")
    page.context.close()
    return figures


def measure(page: Any, selector: str, way: str, what: str) -> list[Figure]:
    """Move something for some seconds, and count."""
    browser = page.context.browser
    browser.start_tracing(page=page, categories=["toplevel"])
    found = page.evaluate(MOVING, [selector, SECONDS, way])
    used = longest_task(json.loads(browser.stop_tracing())["traceEvents"])
    frames, longest, rows = found["frames"], found["longest"], found["rows"]
    figures = [
        Figure(f"{what}: frames a second", f"{frames:.0f}", frames, 30, at_least=True),
        Figure(f"{what}: longest task", f"{longest:.0f} ms", longest, 100),
        Figure(f"{what}: longest task, processor", f"{used:.0f} ms", used, 100),
    ]
    if way == "scroll":
        figures.append(Figure(f"{what}: most rows in the page", str(rows), rows, 99))
    return figures


def longest_task(events: list[dict[str, Any]]) -> float:
    """The most milliseconds of the processor that a task of the main thread of a page took."""
    pages = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        each["tdur"]
        for each in events
        if (each["pid"], each["tid"]) in pages and "tdur" in each and "RunTask" in each["name"]
    ]
    return float(max(tasks)) / 1000


def sizes() -> list[Figure]:
    """What the page weighs, packed."""
    files = json.loads((BUILT / "build.json").read_text("utf-8"))["files"]
    page = (BUILT / "index.html").read_text("utf-8")
    packed = {each["path"]: each["gzip_bytes"] / 1024 for each in files}
    first = sum(size for path, size in packed.items() if path in page or path == "index.html")
    return [
        Figure("first page, packed", f"{first:.0f} KB", first, 220),
        Figure("everything, packed", f"{sum(packed.values()):.0f} KB", sum(packed.values()), 450),
    ]


def main() -> int:
    """Measure all of it; 1 if there is no browser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a hundredth of the edges")
    arguments = parser.parse_args()
    executable = shutil.which("chromium")
    if executable is None:
        print("needs chromium; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    edges = LARGE_EDGES // (100 if arguments.small else 1)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        make_dots(place / "large", edges // 4 if not arguments.small else ROWS, edges)
        make_dots(place / "dots", NODES, EDGES)
        graphs = {"large": place / "large", "dots": place / "dots"}
        with serving(graphs) as server, sync_playwright() as playwright:
            flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
            browser = playwright.chromium.launch(executable_path=executable, args=flags)
            figures = [*first_look(browser, server), *moving(browser, server)]
            figures += [*scrolling(browser, server), *sizes()]
            browser.close()
    wide = max(len(figure.what) for figure in figures)
    for figure in figures:
        print(f"{figure.what:<{wide}}  {figure.shown:>9}  {figure.verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
