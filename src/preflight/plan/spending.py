"""What a run costs: GPU-hours, money in the range of what clouds asked on a day, energy."""

from __future__ import annotations

import statistics

from preflight.catalog.hardware import prices_for
from preflight.vocabulary.hardware import Cluster, Price
from preflight.vocabulary.plan import Cost, Duration
from preflight.vocabulary.quantity import Interval


def cost_of(cluster: Cluster, duration: Duration) -> Cost:
    """Return the cost of a run.

    Energy is that of the boards at their rated power: hosts, network and cooling come on top, and a board that waits
    takes less.
    """
    if duration.seconds is None:
        return Cost(reason=duration.reason)
    hours = duration.seconds.mid / 3600 * cluster.num_gpus
    watts = cluster.gpu.watts
    kwh = hours * watts / 1000 if watts else None
    hourly = hourly_price(cluster.gpu.name)
    if hourly is None:
        return Cost(gpu_hours=hours, kwh=kwh, reason=f"no price of {cluster.gpu.title} is known")
    range_, date = hourly
    return Cost(gpu_hours=hours, usd=range_.scaled(hours), price_date=date, kwh=kwh)


def hourly_price(gpu: str) -> tuple[Interval, str] | None:
    """Return dollars per GPU-hour on demand (lowest, median, highest of the catalog) and the newest day they were read."""
    prices = [price for price in prices_for(gpu) if price.kind == "on-demand"]
    if not prices:
        return None
    middle = statistics.median(_middle(price) for price in prices)
    low, high = min(p.usd_per_hour_low for p in prices), max(p.usd_per_hour_high for p in prices)
    return Interval(low, middle, high), max(price.date for price in prices)


def _middle(price: Price) -> float:
    if price.usd_per_hour_mid is not None:
        return price.usd_per_hour_mid
    return (price.usd_per_hour_low + price.usd_per_hour_high) / 2
