"""Indexes behind two contracts: one attribute (``contract``) and whole rows (``rowindex``)."""
