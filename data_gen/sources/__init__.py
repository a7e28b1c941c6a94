"""Where pages come from: a MediaWiki dump, a folder of HTML files."""
