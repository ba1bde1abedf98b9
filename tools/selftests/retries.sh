#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 det=1
#
# How long a peer that is gone goes unnoticed (py/retries.py): not as short and not as long as the
# specification allows, since programs plan with it.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
export NS_B VETH_B
relay_py retries
finish
