#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A hostile process writes garbage into the rings it shares with the kernel (py/ring.py): its own
# queue pairs may break, nothing else.
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py ring
finish
