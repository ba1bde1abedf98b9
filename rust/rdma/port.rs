// SPDX-License-Identifier: GPL-2.0

//! Properties that the port of every device has.

/// The only port of a device.
pub(super) const PORT: u32 = 1;

/// How many entries a port's P_Key table has; the only one is [`DEFAULT_PKEY`].
pub(crate) const PKEY_TABLE_LEN: u16 = 1;

/// The default partition, full membership (IBTA Vol 1, 10.9.1.2).
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// The size of a management datagram in bytes (IBTA Vol 1, 13.4.2).
pub(crate) const MAD_SIZE: usize = 256;
