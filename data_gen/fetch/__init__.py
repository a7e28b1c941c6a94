"""Fetching lists of web pages, with what they show, into a local mirror."""
