"""A browser without a screen: Debian's Chromium and its driver, installed with apt-get where we are root on Debian.

Both come from one source package, so that they always fit each other, and the driver speaks W3C's WebDriver, so that no
version of Selenium is bound to one of Chromium.
"""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from servers.broker import processes

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}  # program -> Debian package
INSTEAD = "a headless Chromium is needed: install {} (Debian's names)"
WAIT_SECONDS_MAX = 60.0
CONTRAST_MIN = 4.5  # WCAG 2, level AA
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
)  # fmt: skip

# Of every text a person sees: the contrast with its ground, by WCAG 2's formula.
CONTRASTS = """
const parts = (colour) => (colour.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((x) => x / 255)
  .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
  .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
while (texts.nextNode()) {
  const text = texts.currentNode.textContent.trim(), element = texts.currentNode.parentElement;
  if (!text || !element.checkVisibility() || element.closest("thead, :disabled, title")) continue;
  const style = getComputedStyle(element);
  const two = [parts(element.closest("svg") ? style.fill : style.color), ground(element)].map(luminance);
  found.push([(Math.max(...two) + 0.05) / (Math.min(...two) + 0.05), text.slice(0, 60)]);
}
return found;
"""


def provide() -> None:
    """Sees that Chromium and its driver are there; raises NoServers where they cannot be had."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        processes.install(missing, INSTEAD.format(" ".join(missing)))


class Browser:
    """One tab, as a person sees it: its size, its scheme of colours, what it shows."""

    def __init__(self) -> None:
        options = ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        for flag in FLAGS:
            options.add_argument(flag)
        self.driver = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))

    def quit(self) -> None:
        self.driver.quit()

    def see(self, width: int = 1280, scheme: str = "light", height: int = 900) -> None:
        """The width of the window in CSS pixels, and what its owner prefers: `light` or `dark`."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, address: str) -> None:
        self.driver.get(address)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str = "body") -> str:
        """What is to be read in the first element found, and nothing that is hidden; "" where there is none."""
        script = "const e = document.querySelector(arguments[0]); return e?.checkVisibility() ? e.innerText : ''"
        return str(self.run(script, selector))

    def texts(self, selector: str) -> list[str]:
        """The same of every element found that can be seen."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility())"
            ".map((e) => e.innerText.trim())"
        )
        return list(self.run(script, selector))

    def has(self, *words: str, of: str = "body") -> None:
        """Waits until all of the words can be read."""
        self._until(lambda: all(word in self.text(of) for word in words), f"{words} in {of}", of)

    def lacks(self, word: str, of: str = "body") -> None:
        """Waits until the word cannot be read any more."""
        self._until(lambda: word not in self.text(of), f"the end of {word!r} in {of}", of)

    def _until(self, condition: Any, what: str, of: str) -> None:
        try:
            WebDriverWait(self.driver, WAIT_SECONDS_MAX, poll_frequency=0.1).until(lambda _: condition())
        except Exception as error:
            raise AssertionError(f"waited for {what}; what is to be read there:\n{self.text(of)}") from error

    def contrasts(self) -> list[tuple[float, str]]:
        """The contrast of every text that is to be seen, and the text."""
        return [(float(ratio), text) for ratio, text in self.run(CONTRASTS)]

    def width_of_all(self) -> int:
        """How wide the page is, with what could only be scrolled to."""
        return int(self.run("return document.documentElement.scrollWidth"))

    def complaints(self) -> list[str]:
        """What the browser's console has to say of errors since the last call."""
        lines = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [line["message"] for line in lines if line["level"] == "SEVERE"]

    def picture(self, name: str, folder: Path, whole: bool = True) -> None:
        """The whole page, or what the window shows of it, as a PNG; STREAMER_SCREENSHOTS names another folder."""
        into = Path(os.environ.get("STREAMER_SCREENSHOTS") or folder)
        into.mkdir(parents=True, exist_ok=True)
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
        (into / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
