// SPDX-License-Identifier: GPL-2.0

//! Remedies for the first cause of a queue pair's failure, as the module names it
//! (`rust/device/qp/cause.rs`).

/// Words of a cause, and its remedy.
pub(crate) const REMEDIES: [(&str, &str); 16] = [
    (
        "RNR_RETRY_EXC_ERR",
        "Let the peer post more receives, or post them sooner; an rnr_retry of 7 waits without \
         limit.",
    ),
    (
        "RETRY_EXC_ERR",
        "See whether the peer lives, and what it counts: oxe why there. Then the path to it: its \
         firewall (oxe status there), routes, GID indices (oxe gids).",
    ),
    (
        "request: REM_ACCESS_ERR",
        "See to the rkey, the address and the length of the request, and to the access flags of \
         the peer's memory region and queue pair.",
    ),
    (
        "request: REM_INV_REQ_ERR",
        "See to the length of the message, which the peer's receive must hold, and to what the \
         peer's queue pair allows: READs and atomics need its max_dest_rd_atomic.",
    ),
    (
        "request: REM_OP_ERR",
        "See to the peer: its receive names memory that it cannot use, or its process has ended.",
    ),
    (
        "LOC_PROT_ERR",
        "See to the SGEs of the request: lkey, address, length, the access flags of the region, \
         and its protection domain.",
    ),
    (
        "LOC_LEN_ERR",
        "See to the length of the request: at most 2^31 bytes, and for UD the path MTU.",
    ),
    (
        "LOC_QP_OP_ERR",
        "See to the request: an opcode that the queue pair's service lacks, or a malformed WQE.",
    ),
    (
        "MW_BIND_ERR",
        "See to the bind: the region needs IBV_ACCESS_MW_BIND, and the range must be inside it.",
    ),
    (
        "LOC_ACCESS_ERR",
        "See to the rkey of the peer's WRITE with immediate, and to the region's access flags.",
    ),
    (
        "BAD_RESP_ERR",
        "The peer answers what was not asked: see whether it has reset its queue pair.",
    ),
    (
        "responder: refused an access",
        "The peer's rkey, address, length or operation is not one that this side allows: see to \
         the access flags of the region and of the queue pair here.",
    ),
    (
        "responder: refused a request",
        "The peer's message is longer than the receive here, or its operation is not one that \
         this queue pair takes (max_dest_rd_atomic).",
    ),
    (
        "responder: failed",
        "A receive of this side names memory that cannot be used: see to its SGEs.",
    ),
    (
        "consumer:",
        "No error of the connection: the program, or its library, moved the queue pair.",
    ),
    (
        "device:",
        "No error of the connection: the device goes away (rdma link del, or its netdev).",
    ),
];

/// The remedy for a cause.
pub(crate) fn remedy(cause: &str) -> &'static str {
    let found = REMEDIES.iter().find(|(words, _)| cause.contains(words));
    found.map_or(
        "Documentation/debugging.rst describes the causes.",
        |(_, remedy)| remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::{remedy, REMEDIES};

    const SOURCE: &str = include_str!("../../../rust/device/qp/cause.rs");

    /// The texts of the module, but those of completions that are no failure of a queue pair, and
    /// of those that oxe never gives.
    fn causes() -> impl Iterator<Item = &'static str> {
        let texts = SOURCE
            .split("c\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        let unused = ["SUCCESS", "WR_FLUSH_ERR", "REM_ABORT_ERR", "GENERAL_ERR"];
        texts.filter(move |text| !unused.iter().any(|word| text.contains(word)))
    }

    #[test]
    fn each_cause_has_a_remedy() {
        assert!(causes().count() > 10);
        let without: Vec<&str> = causes()
            .filter(|cause| remedy(cause).contains(".rst"))
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn each_remedy_is_that_of_a_cause() {
        for (words, text) in REMEDIES {
            assert!(causes().any(|cause| remedy(cause) == text), "{words}");
        }
    }
}
