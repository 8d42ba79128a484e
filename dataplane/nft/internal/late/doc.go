// SPDX-License-Identifier: Apache-2.0

// Package late drops late packets: packets that a server sends after Wayleave has ended the
// connection.
//
// A connection that policy now denies is ended by deleting its connection tracking entry. The
// server may still have requests to answer. To the kernel, such an answer is the first packet of a
// new connection, from server to client. If policy allows connections in that direction, further
// packets of the denied client pass as replies of the new connection. A Table prevents this: it
// drops the answers for as long as the kernel would have tracked the ended connection. For this, it
// has a table of its own in nftables:
//
//	Add(flows) ──▶ sets of the tuples of their replies, each element with a timeout
//	                    ▲ looked up by new connections only, after connection tracking and before destination NAT
//	packet ──▶ prerouting, output
//
// The first Add creates the nftables table. Expire deletes the table when all elements have timed
// out.
//
// Add leaves out flows of TCP and ICMP. Late TCP packets have no SYN, so render.Config.TCPFromSYN
// drops them. Replies to ICMP queries never begin a connection. For all other protocols, the tuple
// of an element has the addresses and, if connection tracking knows them, the ports.
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
// After an error of Add, late packets of its flows may pass. The next Add creates the table again
// if the table is missing or has other sets. On systems other than Linux, New returns
// errors.ErrUnsupported.
package late
