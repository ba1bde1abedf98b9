#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: garbage in the shared rings breaks the process's own queue pairs alone. A hostile process
# writes it (py/ring.py).
. "$(dirname "$0")/lib.sh"
hosts_up 1500
relay_py ring
finish
