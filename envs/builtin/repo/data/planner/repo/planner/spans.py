"""Half-open spans of minutes, as (start, end) pairs."""


def overlap(a, b):
    """True if two spans share a minute."""
    return a[0] < b[1] and b[0] < a[1]


def merge(spans):
    """The union as sorted spans that neither overlap nor touch."""
    merged = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def free(spans, start, end):
    """The gaps between spans within [start, end)."""
    gaps = []
    place = start
    for first, last in merge(spans):
        if last <= start or first >= end:
            continue
        if first > place:
            gaps.append((place, first))
        place = max(place, last)
    if place < end:
        gaps.append((place, end))
    return gaps
