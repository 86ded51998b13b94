"""SCIM 2.0: the company's directory keeps accounts, so that who leaves it leaves the desk."""
