# SPDX-License-Identifier: GPL-2.0
"""The constants of libibverbs (IBV_QPT_RC ...), as integers.

rdma-core 56 has them as names of a module, 65 in enumerations alone.
"""

import enum

import pyverbs.libibverbs_enums as pyverbs_enums

for name, value in vars(pyverbs_enums).items():
    members = value.__members__ if isinstance(value, enum.EnumType) else {name: value}
    globals().update({name: int(of) for name, of in members.items() if name.startswith("IBV_")})
