#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Hostile packets on the wire, with valid and invalid ICRCs (py/wire.py): truncated at every length, all 256 opcodes, pads,
# versions, keys, noise, answers nobody asked for. Dropped, counted by cause; the connection beside them works on.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
export NS_B
relay_py wire
finish
