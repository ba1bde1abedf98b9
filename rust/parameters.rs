// SPDX-License-Identifier: GPL-2.0

//! The values of the module's parameters, which are declared with the module. Any context.

use crate::ffi::compat;
use crate::module_parameters;

/// How long a port's GID table is to be.
pub(crate) fn gids() -> u16 {
    compat::parameter(module_parameters::gids.value())
}

/// Whether messages from a device to itself go without packets.
pub(crate) fn loopback() -> bool {
    compat::parameter::<u8>(module_parameters::loopback.value()) != 0
}

/// Whether this module registers the link type `rxe`, too.
pub(crate) fn rxe_compat() -> bool {
    compat::parameter::<u8>(module_parameters::rxe_compat.value()) != 0
}

/// Whether super-packets may be sent.
pub(crate) fn segmentation() -> bool {
    compat::parameter::<u8>(module_parameters::segmentation.value()) != 0
}
