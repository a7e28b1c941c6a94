"""Published benchmarks: one small entry each, from their own file schemas to EvalQuestion; ``registry`` lists them."""
