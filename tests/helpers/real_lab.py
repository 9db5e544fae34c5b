"""A real JupyterLab with a real browser in front of it, driven by playwright."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from helpers.quick_start import python_m

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without a sandbox, for CI often runs as root; and no calls home.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

WIDE, NARROW = 1000, 540

IS_READY = """() => {
  const panel = jupyterapp.shell.currentWidget, session = panel?.sessionContext;
  return panel?.context?.isReady && session?.session?.kernel?.status === "idle";
}"""
# Cells out of sight are not on the page, so the notebook itself is asked.
ALL_HAVE_RUN = """() => {
  const notebook = jupyterapp.shell.currentWidget.content.model.sharedModel;
  const cells = notebook.cells.filter(cell => cell.cell_type === "code");
  const failed = cells.some(cell => cell.outputs.some(o => o.output_type === "error"));
  return failed || cells.every(cell => cell.execution_count !== null);
}"""
# The first cell as if it had never been run, with this text.
WRITE_ANEW = """text => {
  const notebook = jupyterapp.shell.currentWidget.content.model.sharedModel;
  notebook.cells[0].setSource(text);
  jupyterapp.commands.execute("notebook:clear-all-cell-outputs");
}"""
NOTHING_IS_SHOWN = "() => !document.querySelector('.jp-OutputArea-output')"
ERRORS = """() => jupyterapp.shell.currentWidget.content.model.sharedModel.cells
  .flatMap(cell => cell.outputs ?? []).filter(o => o.output_type === "error")
  .map(error => `${error.ename}: ${error.evalue}`)"""


def find_browser() -> str | None:
    """Where a Chromium is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def lab_server(folder: Path, dark: bool = False) -> Iterator[str]:
    """JupyterLab over `folder`, with settings of its own; gives its address."""
    home = folder / ".jupyter"
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    theme = {"theme": f"JupyterLab {'Dark' if dark else 'Light'}"}
    (settings / "themes.jupyterlab-settings").write_text(json.dumps(theme))
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    places = {
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    options = {
        "--ServerApp.ip": "127.0.0.1",
        "--ServerApp.port": port,
        "--ServerApp.port_retries": 0,
        "--ServerApp.root_dir": folder,
        "--IdentityProvider.token": "",
        "--LabApp.expose_app_in_browser": True,  # for commands, as from a menu
    }
    command = [*python_m("jupyterlab"), "--no-browser", "--allow-root"]
    command += [f"{name}={value}" for name, value in options.items()]
    environment = os.environ | {name: str(place) for name, place in places.items()}
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    try:
        _wait_for(f"{address}/api", server, folder / "server.log")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait_for(address: str, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()[-2000:]}")


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(), args=list(FLAGS)
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def fresh_page(
    browser: Browser, width: int = WIDE, height: int = 1400, sharp: int = 1
) -> Iterator[tuple[Page, list]]:
    """An empty page, and a list of the errors that the browser's console will show.

    sharp: how many pixels of a picture a pixel of the page becomes, each way.
    """
    page = browser.new_page(
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
        device_scale_factor=sharp,
    )
    page.set_default_timeout(60_000)
    # The badges of other sites are not fetched: tests need no network.
    page.route(
        re.compile(r"https?://(?!127\.0\.0\.1)"),
        lambda route: route.fulfill(body=""),
    )
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda said: errors.append(said.text) if said.type == "error" else None,
    )
    try:
        yield page, errors
    finally:
        page.close()


@contextmanager
def browser_page(*options: int, **more: int) -> Iterator[tuple[Page, list]]:
    """A fresh page in a browser that is opened for it; options are `fresh_page`'s."""
    with open_browser() as browser, fresh_page(browser, *options, **more) as made:
        yield made


def write_notebook(path: Path, *cells: str) -> None:
    """A notebook of these code cells, not yet run."""
    blank = {"cell_type": "code", "execution_count": None, "metadata": {}}
    made = [
        {**blank, "id": f"cell-{number}", "outputs": [], "source": text}
        for number, text in enumerate(cells)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": made, "metadata": {"kernelspec": kernel}}
    path.write_text(json.dumps(notebook | {"nbformat": 4, "nbformat_minor": 5}))


def open_notebook(page: Page, address: str, name: str) -> None:
    """Open a notebook, and wait until its kernel is there."""
    page.goto(f"{address}/doc/tree/{name}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_function(IS_READY)
    page.locator(".jp-Notebook .jp-Cell").first.click()


def run_all(page: Page, address: str, name: str, seconds: int = 120) -> None:
    """Open a notebook, run all its cells, and wait until the last one has run.

    AssertionError if one of them fails.
    """
    open_notebook(page, address, name)
    _run_cells(page, seconds)


def run_cell(page: Page, text: str, seconds: int = 120) -> None:
    """Run this in the cell of a notebook that is open and has a single cell.

    What the cell has shown before is gone first. The kernel stays: a name of an earlier
    text is still there. AssertionError if the text fails.
    """
    page.evaluate(WRITE_ANEW, text)
    page.wait_for_function(NOTHING_IS_SHOWN)
    _run_cells(page, seconds)


def _run_cells(page: Page, seconds: int) -> None:
    page.evaluate("() => {jupyterapp.commands.execute('notebook:run-all-cells')}")
    page.wait_for_function(ALL_HAVE_RUN, timeout=seconds * 1000)
    errors = page.evaluate(ERRORS)
    assert not errors, errors


def set_theme(page: Page, dark: bool) -> None:
    """Choose one of JupyterLab's themes, as from its menu."""
    if is_dark(page) == dark:
        return  # choosing it anew would take as long
    name = f"JupyterLab {'Dark' if dark else 'Light'}"
    page.evaluate(
        """theme => {
          jupyterapp.commands.execute("apputils:change-theme", { theme });
        }""",
        name,
    )
    page.wait_for_function(
        "name => document.body.dataset.jpThemeName === name", arg=name
    )
    settle(page)


def is_dark(page: Page) -> bool:
    """Is it JupyterLab's dark theme that is seen?"""
    return page.evaluate("() => document.body.dataset.jpThemeName") == "JupyterLab Dark"


def in_each_look(
    page: Page, looks: Sequence[tuple[bool, int]]
) -> Iterator[tuple[bool, int]]:
    """Each theme and width in turn, and the page in it; at first in today's theme.

    looks: (is it dark, width). Themes take long to change, so they should be sorted.
    """
    for dark, width in looks[::-1] if is_dark(page) else looks:
        set_theme(page, dark)
        set_width(page, width)
        yield dark, width


def set_width(page: Page, width: int) -> None:
    """Make the window as wide as this, and wait until JupyterLab has followed."""
    page.set_viewport_size({"width": width, "height": 2400})
    page.wait_for_function(
        """width => {
          const shell = document.querySelector(".jp-LabShell");
          return shell.getBoundingClientRect().width === width;
        }""",
        arg=width,
    )
    settle(page)


@contextmanager
def styled(page: Page, css: str) -> Iterator[None]:
    """Add these rules to the page's own, for a while."""
    sheet = page.add_style_tag(content=css)
    settle(page)
    try:
        yield
    finally:
        sheet.evaluate("sheet => sheet.remove()")
        settle(page)


def wait_for_kernel(page: Page) -> None:
    """Wait until the kernel has said all that it is saying, and all of it is drawn."""
    page.wait_for_function(IS_READY)
    settle(page)


def press(page: Page, name: str) -> None:
    """Press a button, found as a screen reader finds it, when nothing moves any more.

    A reader does no other: a button that moves while the mouse is down is not pressed.
    """
    wait_for_kernel(page)
    page.get_by_role("button", name=name, exact=True).click()


def write(page: Page, label: str, text: str) -> None:
    """Write into a field, leave it, and wait until the kernel has read it."""
    wait_for_kernel(page)  # else the focus may go elsewhere meanwhile
    field = page.get_by_label(label)
    field.fill(text)
    page.keyboard.press("Tab")
    wait_for_kernel(page)
    assert field.input_value() == text


def settle(page: Page) -> None:
    """Wait until what has been changed is drawn."""
    page.evaluate(
        """async () => {
          const frame = () => new Promise(requestAnimationFrame);
          const second = new Promise(done => setTimeout(done, 1000));
          await document.fonts.ready;
          await frame(), await frame();
          const moving = document.getAnimations().map(one => one.finished);
          await Promise.race([Promise.allSettled(moving), second]);
        }"""
    )
