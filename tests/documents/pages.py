"""The documents whose statements the tests of this folder check."""


def pages(source):
    """All, README.md first."""
    return [source / "README.md", source / "CONTRIBUTING.md", source / "CHANGELOG.md",
            source / "tests/README.md", *sorted((source / "docs").rglob("*.md"))]
