import pytest
from playwright.sync_api import sync_playwright

import chromium

ALONE = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium.program(), args=ALONE)
        yield launched
        launched.close()
