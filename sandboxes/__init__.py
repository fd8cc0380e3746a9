"""Where model-written code runs; imports nothing else of turngym."""

if not __name__.startswith("turngym."):
    raise ImportError(
        f"import turngym.{__name__}, not {__name__}: the bare name may belong to another distribution"
    )
