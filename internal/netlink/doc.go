// SPDX-License-Identifier: Apache-2.0

// Package netlink is the transport for all netlink families: sockets, messages with their acknowledgements, attributes,
// and dumps, which are repeated if they are interrupted. The packages of the families, rtnl, nfnl and conntrack, have
// the meaning of messages.
//
// # Usage
//
//	conn, err := netlink.Dial(netlink.Config{Family: netlink.Route})
//	...
//	request := conn.Request(unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg)...)
//	request.String(unix.IFLA_IFNAME, "eth0")
//	err = conn.Query(func(m netlink.Message) error {
//		var d netlink.Decoder
//		header := d.Begin(m.Data, unix.SizeofIfInfomsg)
//		for d.Next() {
//			... // d.Type, d.Native32()
//		}
//		return d.Err
//	})
//
// A Conn never waits. A KernelSocket does, for notifications:
//
//	err = sock.Join(unix.RTNLGRP_LINK)
//	for err == nil {
//		if err = sock.Wait(); err == nil {
//			missed, err = conn.Poll(each)
//		}
//	}
//
// # Concurrency
//
// A Conn, and the types of requests and answers, are for one goroutine. The methods of a
// KernelSocket may be called from several, except Send. Wait does not block the others.
//
// # Errors
//
// If the kernel refuses a request, the error is an *AckError with its errno, explanation and offset
// (extended ack). ErrInterrupted: a dump's objects keep changing. ErrMalformed: an answer or
// attribute cannot be read. *SizeError: the datagram was not sent. All others are those of the system calls.
// After ENOBUFS, the kernel had to drop datagrams; those before and after the gap are valid. Dial
// returns ErrUnsupported on anything but Linux.
package netlink
