// SPDX-License-Identifier: Apache-2.0

// Package nfnl frames nf_tables transactions and sends them to the kernel over netlink.
//
//	Batch                                  Conn
//	┌ begin ┬ message ┬ ... ┬ message ┬ end ┐ ──sendmsg──▶ nf_tables: all of it, or nothing
//	└ seq 0 ┴ seq 1   ┴     ┴ seq n,ack┴ n+1┘ ◀──recvmsg── one ack, or one error for each message at fault
//
// A Batch is one buffer of messages and attributes. For every message it keeps the Object that the
// message is about, so that an error of the kernel names it. One sendmsg sends the whole buffer,
// which makes it atomic. A batch can be for one generation of the ruleset only (Guard), and it can
// be checked without a commit (Check). Dump lists objects, as raw attributes, and starts again if
// the ruleset changes meanwhile. A Monitor receives notifications of every transaction of any
// process. The package does not interpret rules and sets.
//
// The kernel decides for all network namespaces together whether there are listeners. While there
// is a Monitor, or an "nft monitor", anywhere on the machine, it writes a notification for every
// element of every transaction, which doubles the time of a large one; see Pause.
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
// Neither a Batch nor a Conn may be used by several goroutines at once. Of a Monitor, Wait and Wake
// may be called at any time.
//
// # Errors
//
// Commit returns a *CommitError if the kernel refused the transaction, which then has no effect,
// and a *netlink.SizeError if the batch was not sent. With any other error the result is unknown,
// and the caller must read the table back. Dial returns netlink.ErrUnsupported on anything but
// Linux, where there is no Monitor.
package nfnl
