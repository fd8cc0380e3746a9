"""What the journal says: balances, and amounts that are divided."""


def balances(journal, first=None, last=None):
    """Cents by account over some dates; accounts at zero are left out, the others sorted by name."""
    totals = {}
    for entry in journal.between(first, last):
        for account, cents in entry.postings:
            totals[account] = totals.get(account, 0) + cents
    return {account: totals[account] for account in sorted(totals) if totals[account] != 0}


def subtotal(journal, account, first=None, last=None):
    """Cents of an account and of those below it: "home" holds "home:rent", and not "homework"."""
    found = balances(journal, first, last)
    return sum(
        cents for name, cents in found.items() if name == account or name.startswith(account + ":")
    )


def split(cents, shares):
    """An amount divided by integer shares; the parts sum to it exactly, the first ones take the odd cents."""
    total = sum(shares)
    if total <= 0 or min(shares) < 0:
        raise ValueError("shares are not negative, and not all zero")
    sign = -1 if cents < 0 else 1
    parts = [abs(cents) * share // total for share in shares]
    odd = abs(cents) - sum(parts)
    place = 0
    while odd:
        if shares[place % len(shares)]:
            parts[place % len(shares)] += 1
            odd -= 1
        place += 1
    return [sign * part for part in parts]
