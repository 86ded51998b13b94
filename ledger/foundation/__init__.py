"""Tools of every room that know no transaction and import nothing of the product."""
