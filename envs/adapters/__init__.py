"""Foreign environments, tasks and reward functions as turngym's; each module needs its own extra."""
