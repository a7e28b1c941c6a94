"""How a run is declared (typed YAML) and executed (resumable stages)."""
