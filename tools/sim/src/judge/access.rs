// SPDX-License-Identifier: GPL-2.0

//! The judge of the packets that a QP accepts, from any sender.

use crate::check::{ensure, Violation};
use crate::host::qp::Setup;
use crate::judge::decode::{op, Seen};
use oxe_proto::transport::RemoteAccess;

/// The rule of matching partition keys, in other words than the code under test (IBTA 10.9.3).
pub fn partition_matches(a: u16, b: u16) -> bool {
    a << 1 != 0 && a << 1 == b << 1 && (a | b) >> 15 == 1
}

/// Whether a FLUSH asks for something that is defined and that the QP allows (IBTA annex A19.4.1).
fn allows_flush(access: &RemoteAccess, packet: &Seen) -> bool {
    let feth = packet.feth.unwrap_or(0);
    let (placement, level) = (feth & 0xf, (feth >> 4) & 3);
    let allowed = u32::from(access.flush_global) | (u32::from(access.flush_persistent) << 1);
    placement != 0 && placement & !allowed == 0 && level < 2
}

/// Whether an ATOMIC WRITE is about eight aligned bytes.
fn is_word(packet: &Seen) -> bool {
    packet
        .reth
        .is_some_and(|(va, _, len)| va % 8 == 0 && len == 8)
}

/// Packets that a QP has accepted: partition (IBTA 9.6.1.1, 10.9.3), the operations that it
/// allows (IBTA 9.7.4.1.5, 10.2.4), lengths (IBTA 9.7.4.1.6), the alignment of atomics
/// (IBTA 9.4.5) and of ATOMIC WRITEs (IBTA annex A19.4.2). Holds for forged packets, too.
pub fn check_accepted(setup: &Setup, seen: &[Seen]) -> Result<(), Violation> {
    for packet in seen {
        let member = partition_matches(packet.pkey, setup.pkey);
        ensure!("IBTA 10.9.3", member, "takes P_Key {:#x}", packet.pkey);
        let len = packet.payload.len();
        let full = len == setup.pmtu as usize;
        let (allowed, fits) = match packet.opcode {
            op::SEND_FIRST | op::SEND_MIDDLE => (true, full),
            op::WRITE_FIRST | op::WRITE_MIDDLE => (setup.access.write, full),
            op::WRITE_LAST..=op::WRITE_ONLY_IMM => (setup.access.write, len <= setup.pmtu as usize),
            op::READ_REQUEST => (setup.access.read, len == 0),
            op::COMPARE_SWAP | op::FETCH_ADD => (setup.access.atomic, len == 0),
            op::ATOMIC_WRITE => (setup.access.write, len == 8),
            op::FLUSH => (allows_flush(&setup.access, packet), len == 0),
            _ => (true, len <= setup.pmtu as usize),
        };
        ensure!(
            "IBTA 9.7.4.1.5, 10.2.4",
            allowed,
            "takes what it does not allow, {packet:x?}"
        );
        ensure!("IBTA 9.7.4.1.6", fits, "takes {len} bytes in {packet:x?}");
        let aligned = packet.atomic.is_none_or(|(va, ..)| va % 8 == 0)
            && (packet.opcode != op::ATOMIC_WRITE || is_word(packet));
        ensure!("IBTA 9.4.5, annex A19.4.2", aligned, "takes {packet:x?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::partition_matches;
    use oxe_proto::wire::PKey;

    #[test]
    fn two_opinions_on_partitions_agree() {
        let interesting = [0, 1, 0x7fff, 0x8000, 0x8001, 0x8002, 2, 0xffff];
        for a in interesting {
            for b in interesting {
                let theirs = PKey::new(a).matches(PKey::new(b));
                assert_eq!(partition_matches(a, b), theirs, "{a:#x} {b:#x}");
            }
        }
    }
}
