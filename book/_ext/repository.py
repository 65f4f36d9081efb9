"""Launch and source buttons from the one constant `[tool.mha] Repository` in pyproject.toml; empty means none."""

import tomllib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config


def read_repository(root: Path) -> str:
    return tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mha"]["Repository"].rstrip("/")


def add_buttons(app: Sphinx, config: Config) -> None:
    config.repository = read_repository(Path(app.srcdir))
    if not config.repository:
        return
    config.html_theme_options |= {
        "repository_url": config.repository,
        "repository_branch": "main",
        "use_repository_button": True,
        "use_issues_button": True,
        "launch_buttons": {
            "notebook_interface": "jupyterlab",
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
        },
    }


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("repository", "", "env")
    app.connect("config-inited", add_buttons, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
