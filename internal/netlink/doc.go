// SPDX-License-Identifier: Apache-2.0

// Package netlink is the transport for all netlink families. It has sockets, messages,
// acknowledgements, attributes and dumps. It repeats a dump that is interrupted. Packages rtnl,
// nfnl and conntrack encode and decode the content of messages.
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
// No method of a Conn waits. To wait for notifications, open a KernelSocket with Open, and make a
// Conn over this socket with NewConn. In this example, the socket is sock, and the function handle
// gets one notification at a time:
//
//	err = sock.Join(unix.RTNLGRP_LINK)
//	for err == nil {
//		if err = sock.Wait(); err == nil {
//			missed, err = conn.Poll(handle)
//		}
//	}
//
// # Concurrency
//
// Only one goroutine at a time may use a Conn, a request or an answer, or call Send of a
// KernelSocket. The other methods of a KernelSocket may be called from any goroutine. Wait does not
// block the other methods.
//
// # Errors
//
// The errors are:
//
//   - *AckError: the kernel refused a request.
//   - ErrInterrupted: every attempt of a dump was interrupted, because the objects kept changing.
//   - ErrMalformed: an answer or attribute cannot be read.
//   - *SizeError: a datagram is too large, and was not sent.
//   - ErrUnsupported: Dial returns it on systems other than Linux.
//   - An error of a system call. ENOBUFS means that the kernel dropped datagrams. All datagrams
//     that were received are valid.
package netlink
