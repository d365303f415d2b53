"""The commands, gathered."""

import typer

from germane.cli import (
    approx,
    check,
    deadletters,
    demo,
    doctor,
    fetch,
    learn,
    match,
    replay,
    reproduce,
    reshard,
    run,
    serve,
    synonyms,
    version,
)

app = typer.Typer(
    help="A context-aware information filter: who should get this message, right now?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("demo")(demo.demo)
app.command("match")(match.match)
app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("reshard")(reshard.reshard)
app.command("serve", epilog=serve.EXAMPLE)(serve.serve)
app.command("replay")(replay.replay)
app.command("deadletters")(deadletters.deadletters)
app.command("doctor")(doctor.doctor)
app.command("fetch", epilog=fetch.EXAMPLE)(fetch.fetch)
app.command("learn", epilog=learn.EXAMPLE)(learn.learn)
app.command("check")(check.check)
app.command("synonyms", epilog=synonyms.EXAMPLE)(synonyms.synonyms)
app.add_typer(approx.app, name="approx")
app.add_typer(reproduce.app, name="reproduce")
app.command("version")(version.version)
