"""What an attack reports: refuted claims, each with the run file that repeats it, and how much was tried."""

from __future__ import annotations

from dataclasses import dataclass, field

RELATIVE = 1e-9
"""Sums of the same terms in another order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A claim that does not hold."""

    kind: str
    """better design, bound, plan, space, count, status, move, layer."""
    claim: str
    """Whose: the answer, a sieve's name, a certificate's entry, a move."""
    text: str
    repro: str
    """A run file, and what is to be changed besides."""

    def __str__(self) -> str:
        return f"{self.kind} ({self.claim}): {self.text}\n{self.repro}"


@dataclass(slots=True)
class Tally:
    """Findings, and what they came out of."""

    findings: list[Finding] = field(default_factory=list)
    num_searches: int = 0
    num_designs: int = 0
    num_bounds: int = 0
    num_moves: int = 0
    num_plans: int = 0
    """Of cost model ``full``, priced one by one."""
    num_unproven: int = 0
    """Designs whose truth is known from below only, since a schedule could not be proven."""

    def add(self, kind: str, claim: str, text: str, repro: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(kind=kind, claim=claim, text=text, repro=repro))

    @property
    def line(self) -> str:
        """All of it in a line."""
        return (
            f"{self.num_searches:,} searches, {self.num_designs:,} designs solved slowly "
            f"({self.num_unproven:,} with unproven schedules), {self.num_bounds:,} bounds, "
            f"{self.num_plans:,} plans, {self.num_moves:,} monotone moves: {len(self.findings):,} findings"
        )


def exceeds(value: float, ceiling: float) -> bool:
    """Whether a value is above a ceiling by more than rounding."""
    return value > ceiling * (1 + RELATIVE) if ceiling > 0 else value > RELATIVE
