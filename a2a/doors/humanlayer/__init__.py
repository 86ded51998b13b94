"""The API that clients of HumanLayer speak: function calls to sign off, questions to people.

Its clients end their wait at any answer but 200, so that what is known is always answered so.
"""
