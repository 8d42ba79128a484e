// SPDX-License-Identifier: Apache-2.0

// Package nfnl frames nf_tables transactions and sends them to the kernel over netlink.
//
//	Batch                                  Conn
//	┌ begin ┬ message ┬ ... ┬ message ┬ end ┐ ──sendmsg──▶ nf_tables: all of it, or nothing
//	└ seq 0 ┴ seq 1   ┴     ┴ seq n,ack┴ n+1┘ ◀──recvmsg── one ack, or one error for each message at fault
//
// A Batch is one buffer that messages and attributes are appended to; it keeps, for every message,
// the Object that the message is about, so that an error of the kernel names it. The whole buffer
// goes out in one sendmsg, which is what makes it atomic. A batch can be for one generation of the
// ruleset only (Guard), and it can be checked without being done (Check). Dump lists objects, as
// raw attributes, and begins again when the ruleset changes under it. A Monitor hears of every
// transaction of any process. Nothing here knows of rules and sets: whoever calls it does.
//
// The kernel decides for all network namespaces together whether anybody listens. While there is a
// Monitor, or an "nft monitor", anywhere on the machine, it writes down every element of every
// transaction for it, which doubles the time of a large one; see Pause.
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
// Commit returns a *CommitError if the kernel refused the transaction: then nothing of it was done,
// and a *netlink.SizeError if the batch was not sent. With any other error the outcome is unknown, and the
// caller must read back what there is. Dial returns netlink.ErrUnsupported on anything but Linux,
// where there is no Monitor.
package nfnl
