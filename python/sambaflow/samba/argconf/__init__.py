# SPDX-License-Identifier: Apache-2.0
"""A program's arguments as pydantic models: args.py has them. Needs the package pydantic, which the rest does without."""
