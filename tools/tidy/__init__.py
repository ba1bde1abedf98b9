# SPDX-License-Identifier: GPL-2.0
"""The rules that hold the repository together, checked on its text: a module for each subject."""
