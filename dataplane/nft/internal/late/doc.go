// SPDX-License-Identifier: Apache-2.0

// Package late drops late packets: packets that servers send after policy has ended their
// connections.
//
// The server of an ended connection may still have requests to answer. To the kernel, the answer is
// then the first packet of a connection from server to client. If policy allows that connection,
// packets of the denied client pass as its replies. A Table prevents this: it drops such packets
// for as long as the kernel would have tracked the ended connection. It has a table of its own in
// nftables:
//
//	Add(flows) ──▶ sets of the tuples of their replies, each element with a timeout
//	                    ▲ looked up by new connections only, after connection tracking and before destination NAT
//	packet ──▶ prerouting, output
//
// The nftables table exists only after connections were ended. Expire deletes it when all elements
// have timed out.
//
// Add leaves out flows of TCP and ICMP. render.Config.TCPFromSYN drops late TCP packets, because
// they have no SYN. Replies to ICMP queries never begin a connection. For all other protocols, the
// tuple of an element has the addresses and, if connection tracking knows them, the ports.
//
// # Usage
//
//	t, err := late.New(late.Config{PolicyTable: "wayleave"})
//	err = t.Add(flows)        // before they are ended
//	wait, err := t.Expire()   // again after wait, unless it is zero
//
// # Concurrency
//
// The methods of a Table may be called from any goroutine. A lock lets only one of them run at a
// time.
//
// # Errors
//
// After an error of Add, late packets of these flows may pass. The next call creates the table again
// if it is missing or has other sets. On systems other than Linux, New returns errors.ErrUnsupported.
package late
