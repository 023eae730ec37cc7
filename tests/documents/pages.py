"""The documents whose statements the tests of this folder check."""


def pages(source):
    """All, README.md first."""
    return [source / "README.md", source / "CONTRIBUTING.md", source / "CHANGELOG.md",
            source / "tests/README.md", *sorted(
                path for path in source.glob("*/README.md") if path.parent.name not in ("tests", "bench")),
            *sorted((source / "docs").rglob("*.md"))]
