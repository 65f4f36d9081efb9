"""Keep the API page to what a floor exports of its own files: helpers from elsewhere are documented elsewhere."""

from sphinx.application import Sphinx


def skip_foreign(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    documented = app.env.temp_data.get("autodoc:module") or ""
    home = str(getattr(obj, "__module__", ""))
    return True if what == "module" and home != documented and not home.startswith(documented + ".") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
