"""Who acts: tokens, engines, and one episode's loop."""

if not __name__.startswith("turngym."):
    raise ImportError(
        f"import turngym.{__name__}, not {__name__}: the bare name may belong to another distribution"
    )
