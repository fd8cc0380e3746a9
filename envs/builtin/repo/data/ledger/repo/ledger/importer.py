"""From CSV text to a journal."""

from ledger import money
from ledger.journal import Entry, Journal


def read_csv(text):
    """A journal of lines `date,text,account,amount`."""
    groups = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        date, what, account, amount = fields(line.rstrip("\r"))
        groups.setdefault((date, what), []).append((account, money.parse(amount)))
    journal = Journal()
    for (date, what), postings in groups.items():
        journal.add(Entry(date, what, postings))
    return journal


def fields(line):
    """The fields of a line; quotes protect commas, and two quotes within them are one."""
    found = []
    current = ""
    quoted = False
    place = 0
    while place < len(line):
        ch = line[place]
        if quoted:
            if ch == '"' and line[place + 1 : place + 2] == '"':
                current += '"'
                place += 1
            elif ch == '"':
                quoted = False
            else:
                current += ch
        elif ch == '"':
            quoted = True
        elif ch == ",":
            found.append(current)
            current = ""
        else:
            current += ch
        place += 1
    found.append(current)
    return found
