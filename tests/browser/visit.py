"""Open a page with the outside world shut off, and turn its widgets as a reader would."""

import functools
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Seen:
    """What went wrong while a page was open."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(folder):
    """Serve a folder as a plain static host does; give the address without a slash at the end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def visit(browser, address, *, width=1280, scheme="light"):
    """Open `address`, and give the page and what it did wrong: requests to other hosts, errors on the console."""
    seen = Seen()
    home = "file://" if address.startswith("file:") else "/".join(address.split("/")[:3]) + "/"
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )

    def gate(route):
        if route.request.url.startswith((home, "data:", "blob:")):
            route.continue_()
        else:
            seen.outside.append(route.request.url)
            route.abort()

    context.route("**/*", gate)
    page = context.new_page()
    page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.goto(address, wait_until="load")
    page.wait_for_function("[...document.querySelectorAll('[data-widget]')].every((w) => w.matches('.is-live'))")
    try:
        yield page, seen
    finally:
        context.close()


PICTURE = r"""svg => [...svg.querySelectorAll("*")].map((node) => {
  const attributes = [...node.attributes].map((a) => `${a.name}=${a.value}`).sort();
  return [node.nodeName, ...attributes, node.children.length ? "" : node.textContent].join(" ");
}).join("\n")"""


def picture(live):
    """Return what a widget draws: one line an element, its attributes sorted."""
    return live.locator("svg").evaluate(PICTURE)


CONTROLS = "fieldset, .mha-slider, .mha-toggle, .mha-select"


def still_controls(live):
    """Move every control of a widget by keyboard and by mouse; return those that left the picture as it was."""
    first = picture(live)
    still = []
    for by in ("keyboard", "mouse"):
        for control in live.locator(CONTROLS).all():
            name = control.locator("legend, span").first.inner_text()
            enable(live, control)
            before = picture(live)
            MOVES[kind_of(control), by](control)
            if picture(live) == before:
                still.append(f"{name} by {by}")
            live.locator("button").click()
    if picture(live) != first:
        still.append("Reset")
    return still


KIND = "c => !c.matches('fieldset') ? c.className : c.querySelector('[type=checkbox]') ? 'boxes' : 'choices'"


def kind_of(control):
    return control.evaluate(KIND)


def move_one(live):
    """Move the first control that can be moved, by keyboard."""
    control = next(one for one in live.locator(CONTROLS).all() if one.locator("input, select").first.is_enabled())
    MOVES[kind_of(control), "keyboard"](control)


def enable(live, control):
    """Choose in the other controls until `control` can be moved."""
    for chip in live.locator(".mha-controls .mha-chip").all():
        if control.locator("input, select").first.is_enabled():
            return
        chip.click()


def press(inner, key):
    inner.focus()
    inner.press(key)


def slide_by_keyboard(control):
    inner = control.locator("input")
    press(inner, "ArrowLeft" if inner.evaluate("i => Number(i.value) >= Number(i.max)") else "ArrowRight")


def slide_by_mouse(control):
    inner = control.locator("input")
    low = inner.evaluate("i => (i.value - i.min) / (i.max - i.min) < 0.5")
    box = inner.bounding_box()
    inner.click(position={"x": box["width"] * (0.9 if low else 0.1), "y": box["height"] / 2})


def select_by_mouse(control):
    """Chromium draws the open list outside the page, so the choice itself is made by name."""
    inner = control.locator("select")
    inner.click()
    inner.select_option(index=1 - min(inner.evaluate("s => s.selectedIndex"), 1))


MOVES = {
    ("choices", "keyboard"): lambda control: press(control.locator("input:checked"), "ArrowRight"),
    ("boxes", "keyboard"): lambda control: press(control.locator("input").first, "Space"),
    ("boxes", "mouse"): lambda control: control.locator(".mha-chip").last.click(),
    ("choices", "mouse"): lambda control: control.locator(".mha-chip:not(:has(:checked))").first.click(),
    ("mha-slider", "keyboard"): slide_by_keyboard,
    ("mha-slider", "mouse"): slide_by_mouse,
    ("mha-toggle", "keyboard"): lambda control: press(control.locator("input"), "Space"),
    ("mha-toggle", "mouse"): lambda control: control.click(),
    ("mha-select", "keyboard"): lambda control: press(control.locator("select"), "ArrowDown"),
    ("mha-select", "mouse"): select_by_mouse,
}
