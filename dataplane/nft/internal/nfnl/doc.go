// SPDX-License-Identifier: Apache-2.0

// Package nfnl builds nf_tables transactions and sends them to the kernel over netlink.
//
//	Batch                                  Conn
//	┌ begin ┬ message ┬ ... ┬ message ┬ end ┐ ──sendmsg──▶ nf_tables: all of it, or nothing
//	└ seq 0 ┴ seq 1   ┴     ┴ seq n,ack┴ n+1┘ ◀──recvmsg── one ack, or one error for each message at fault
//
// A Batch is one buffer of messages and attributes. Commit sends the whole buffer with one sendmsg,
// which makes the transaction atomic. For each message, the Batch records which Object the message
// is about, so that an error can name the object. Batch.Guard limits a batch to one generation of
// the ruleset: if the ruleset has another generation, the kernel refuses the batch. Conn.Check
// makes the kernel validate a batch without a commit.
//
// Dump lists objects as raw attributes, and starts again if the ruleset changes during the dump. A
// Monitor receives notifications of the transactions of all processes. The package does not
// interpret rules and sets.
//
// The kernel writes a notification for each element of a transaction if any process on the machine
// listens, even in another network namespace. So a Monitor or an "nft monitor" doubles the time of
// large transactions. Monitor.Pause avoids that.
//
// # Usage
//
//	batch := nfnl.NewBatch()
//	demo := nfnl.Object{Kind: "table", Name: "demo"}
//	batch.Message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, demo)
//	batch.String(unix.NFTA_TABLE_NAME, "demo")
//	conn, err := nfnl.Dial(nfnl.Config{})
//	err = conn.Commit(batch, nil)
//
// # Concurrency
//
// Only one goroutine at a time may use a Batch or a Conn. The methods Wait and Wake of a Monitor
// may be called from any goroutine at any time.
//
// # Errors
//
// If the kernel refuses the transaction, Commit returns a *CommitError, and nothing has changed. If
// the batch is too large to be sent, Commit returns a *netlink.SizeError. After any other error,
// the result is unknown, and the caller must read the table back. On systems other than Linux, Dial
// returns netlink.ErrUnsupported, and there is no Monitor.
package nfnl
