"""The offline annotator and judge: questions made from a page's own DOM, verdicts from a tile's own text.

``grounded`` needs no model and no network. It's a stand-in for a vision-language annotator; manifests name it.
"""
