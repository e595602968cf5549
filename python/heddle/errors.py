# SPDX-License-Identifier: Apache-2.0
"""What heddle raises beside Python's own exceptions."""

from __future__ import annotations


class Error(Exception):
    """What heddle refused or could not do, in one sentence or several lines."""


class InputError(Error, ValueError):
    """An argument, a configuration or a file is wrong; mistakes in configurations have file:line:column."""
