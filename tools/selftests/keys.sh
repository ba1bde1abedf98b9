#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Keys that processes make valid and invalid: memory windows, and regions that are registered anew
# (py/keys.py, py/rereg.py), for traffic on a wire.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py keys
relay_py rereg
finish
