"""Keep the API page to what a floor exports of its own files, and to members that somebody has described."""

from sphinx.application import Sphinx


def skip_foreign(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    documented = app.env.temp_data.get("autodoc:module") or ""
    home = str(getattr(obj, "__module__", ""))
    return True if what == "module" and home != documented and not home.startswith(documented + ".") else None


def skip_fields(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """The fields of a named tuple stand in its signature; what Python says of them is their number."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-skip-member", skip_fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
