#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verbs: memory windows and regions that are registered anew grant what they should and no more. For
# traffic on a wire (py/keys.py, py/rereg.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py keys
relay_py rereg
finish
