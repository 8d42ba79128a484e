// SPDX-License-Identifier: Apache-2.0

// Package nfnl frames nf_tables transactions and carries them to the kernel over netlink.
//
//	Batch                                  Conn
//	┌ begin ┬ message ┬ ... ┬ message ┬ end ┐ ──sendmsg──▶ nf_tables: all of it, or nothing
//	└ seq 0 ┴ seq 1   ┴     ┴ seq n,ack┴ n+1┘ ◀──recvmsg── one ack, or one error for each message at fault
//
// A Batch is one buffer that messages and attributes are appended to; it keeps, for every message,
// the Object that the message is about, so that an error of the kernel names it.
// The whole buffer goes out in one sendmsg, which is what makes it atomic. It knows nothing of
// rules and sets: whoever calls it does.
//
// # Usage
//
//	batch := nfnl.NewBatch()
//	batch.Message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, nfnl.Object{Kind: "table", Name: "demo"})
//	batch.String(unix.NFTA_TABLE_NAME, "demo")
//	conn, err := nfnl.Dial(nfnl.Config{})
//	err = conn.Commit(batch)
//
// # Concurrency
//
// Neither a Batch nor a Conn may be used by several goroutines at once.
//
// # Errors
//
// Commit returns a *CommitError if the kernel refused the transaction: then nothing of it
// was done. With any other error the outcome is unknown, and the caller must write everything again.
// Dial, Generation and Commit return ErrUnsupported on anything but Linux.
package nfnl
