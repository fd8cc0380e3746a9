"""Lends the sandboxes of this machine to others over HTTP: leases, limits from above, and no call that runs twice."""
