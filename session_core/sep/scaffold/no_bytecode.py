"""A pytest plugin for an extension's folder: test runs leave no compiled files in it.

The folder has to stay as a person agreed to it. pytest loads this plugin before any file of the folder, so before
Python could write the first compiled file.
"""

import sys

sys.dont_write_bytecode = True
