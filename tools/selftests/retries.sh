#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: nightly=1 det=1
#
# wire: a peer that is gone is reported after the time that programs plan with. Not as early and not
# as late as the specification allows (py/retries.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
export NS_B VETH_B
relay_py retries
finish
