"""Pages to tiles to question-answer pairs."""
