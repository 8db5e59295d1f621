"""`shardline doctor`: what is missing on this machine, and how to get it."""

from typing import Annotated

import typer

from shardline.cli.options import (
    App,
    AsJson,
    EndpointUrl,
    LeaseEndpointUrl,
    LeaseTable,
    Profile,
    Region,
)


def doctor(
    stream: Annotated[
        str | None, typer.Option(metavar="STREAM", help="Also try to read this stream.")
    ] = None,
    app: App = None,
    lease_table: LeaseTable = None,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Check what shardline needs, one line each, with the remedy for what is missing.

    Nothing is written anywhere. The exit code is 1 if something required is missing. AWS is
    required only if a stream or a lease table is named.
    """
    from shardline.cli.checkup import Checkup, Finding
    from shardline.cli.output import print_json, wide_console
    from shardline.cli.program import ExitCode
    from shardline.services.access import Access

    checkup = Checkup(Access(region=region, endpoint_url=endpoint_url, profile=profile))
    aws_needed = stream is not None or lease_table is not None
    findings: list[Finding] = [*checkup.machine(), *checkup.aws(needed=aws_needed)]
    if stream is not None:
        findings += checkup.stream(stream)
    if lease_table is not None:
        findings += checkup.lease_table(lease_table, app, lease_endpoint_url)
    if as_json:
        print_json([finding.to_json() for finding in findings])
    else:
        console = wide_console()
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            console.print(finding.line(width), soft_wrap=True)
    if any(finding.bad for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
