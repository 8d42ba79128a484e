// SPDX-License-Identifier: Apache-2.0

// Package late drops packets that servers send after policy has ended their connections.
//
// The server of an ended connection may still have requests to answer. To the kernel, its answer is the first packet of
// a connection the other way round. If policy allows that one, the denied client's packets pass as replies.
// A Table drops such packets for as long as the kernel would have tracked the connection, in an nftables table of its
// own:
//
//	Add(flows) ──▶ sets of the tuples of their replies, each element with a timeout
//	                    ▲ looked up by new connections only, after connection tracking and before destination NAT
//	packet ──▶ prerouting, output
//
// There is such a table only after connections were ended: Expire deletes it when all elements have timed out.
//
// TCP flows are left out: with render.Config.TCPFromSYN, a late TCP packet is dropped because it has no
// SYN. Replies to ICMP queries never begin a connection. Flows of all other protocols are added: with
// their ports if connection tracking knows these, otherwise with addresses only.
//
// # Usage
//
//	t, err := late.New(late.Config{PolicyTable: "wayleave"})
//	err = t.Add(flows)        // before they are ended
//	wait, err := t.Expire()   // again after wait, unless it is zero
//
// # Concurrency
//
// The methods of a Table may be called from any goroutine. A lock serialises them.
//
// # Errors
//
// After an error of Add, late packets of these flows may pass. The next call creates the table again
// if it is missing or has other sets. On systems other than Linux, New returns errors.ErrUnsupported.
package late
