"""A pytest plugin for the folder of an extension: no test run leaves compiled files in it.

The folder has to stay as somebody agreed to it. pytest loads this before any file of the folder, and so before Python
could write the first one.
"""

import sys

sys.dont_write_bytecode = True
