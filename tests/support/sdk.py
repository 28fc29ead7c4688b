"""The SDK as most suites use it. Of `support/`, this file alone needs one."""

import boto3
from botocore.config import Config


def sdk_client(server, region="us-east-1", access_key="test", secret_key="test", service="sqs", **options):
    """A real SDK client that never retries: a failure is seen, not papered over."""
    options = {"retries": {"total_max_attempts": 1}, "read_timeout": 40} | options
    return boto3.client(
        service,
        endpoint_url=server.endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(**options),
    )
