"""Texts cut as the files of a tokeniser say, without the library that wrote them."""
