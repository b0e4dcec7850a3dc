# SPDX-License-Identifier: Apache-2.0
"""`import package` before headrace: it is that of the folder that --build
names [build]."""
import argparse
import os
import sys

_parser = argparse.ArgumentParser(add_help=False)
_parser.add_argument("--build", default="build")
BUILD = os.path.abspath(_parser.parse_known_args()[0].build)
sys.path.insert(0, os.path.join(BUILD, "python"))
