"""An agent as a reader: it searches with a row's retriever and delivery, or an endpoint, and then answers."""
