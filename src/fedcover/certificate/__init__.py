from dataclasses import dataclass
@dataclass(frozen=True)
class Certificate:
    confidence: float
    statement: str
