"""The options that several commands share, each declared once."""

from typing import Annotated

import typer

StreamAddress = Annotated[
    str,
    typer.Argument(
        metavar="STREAM", help="kinesis://NAME, dynamodb://TABLE, or either with an ARN."
    ),
]
Region = Annotated[
    str | None, typer.Option(help="AWS region.", envvar="AWS_REGION", show_envvar=False)
]
EndpointUrl = Annotated[
    str | None,
    typer.Option(help="A server other than AWS, such as http://127.0.0.1:4567 (shardline local)."),
]
Profile = Annotated[str | None, typer.Option(help="A profile of your AWS configuration.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
App = Annotated[
    str | None, typer.Option(help="The application whose progress is shown; needs --lease-table.")
]
LeaseTable = Annotated[
    str | None,
    typer.Option(help="dynamodb://TABLE, sqlite:///FILE or postgresql://HOST/DATABASE."),
]
LeaseEndpointUrl = Annotated[
    str | None, typer.Option(help="A DynamoDB other than AWS, for the lease table.")
]
