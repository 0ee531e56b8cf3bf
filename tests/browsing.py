"""What the tests of pages share: what a page in a browser complains of."""

from playwright.sync_api import Page

FILES = ("file:", "data:", "blob:")


def complaints_of(page: Page, own: str | tuple[str, ...]) -> list[str]:
    """What it says, what fails, and what it asks of addresses that do not begin as its own."""
    heard: list[str] = []
    page.on(
        "console",
        # what the browser itself has to say of a page that works
        lambda message: message.type == "info" or heard.append(f"{message.type}: {message.text}"),
    )
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on(
        "request",
        lambda request: request.url.startswith(own) or heard.append(f"request: {request.url}"),
    )
    return heard
