"""The command that lists the policies."""

from __future__ import annotations

import click


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def policies(*, names: tuple[str, ...]) -> None:
    """List the policies, or some: memory, reward model, arguments without effect, citation.

    \b
    Examples:
      driftbandits policies
      driftbandits policies auto D-GLUCB
    """
    from driftbandits.checks import choice
    from driftbandits.estimator.model import DISCOUNT, EVERYTHING, POOL, SINCE_RESTART, WINDOW
    from driftbandits.policies import ALIASES, ROWS, USED_BY, policy_names, takes, uses

    memories = {
        WINDOW: "window",
        DISCOUNT: "discount",
        EVERYTHING: "everything",
        SINCE_RESTART: "since a detected change",
        POOL: "several at once",
        None: "any",
    }
    try:
        wanted = [ALIASES.get(choice("NAME", name, policy_names()), name) for name in names]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    other_names = {name: alias for alias, name in ALIASES.items()}
    for name in wanted or ROWS:
        row = ROWS[name]
        alias = f" ({other_names[name]})" if name in other_names else ""
        link = "identity" if row.linear else "any link"
        details = {
            "refuses": [argument for argument in USED_BY if not takes(name, argument)],
            "ignores": [a for a in USED_BY if takes(name, a) and not uses(name, a)],
        }
        click.echo(f"{name + alias:24}{memories[row.memory]:26}{link}")
        for label, arguments in details.items():
            if arguments:
                click.echo(_indented(f"{label} {' '.join(arguments)}"))
        click.echo(_indented(row.citation) + "\n")


def _indented(text: str) -> str:
    return click.wrap_text(text, width=80, initial_indent="    ", subsequent_indent="      ")
