"""Chromium driven over its DevTools pipe: messages in CBOR, pictures as plain bytes, no program in between."""
