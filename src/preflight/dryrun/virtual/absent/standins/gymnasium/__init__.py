"""What training scripts use of gymnasium, where it is not installed."""

from preflight.dryrun.virtual.absent import environments

environments.fill(__name__, globals(), 5)
