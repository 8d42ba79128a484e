// SPDX-License-Identifier: Apache-2.0

// Package netlink is the transport for all netlink families. It has sockets, messages with their acknowledgements,
// and attributes. It also has dumps, which it repeats if they are interrupted. Packages rtnl, nfnl and conntrack
// encode and decode the content of the messages.
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
// No method of a Conn waits. To wait for notifications, open a KernelSocket with Open (sock in this example), and make
// a Conn over this socket with NewConn. Join of the KernelSocket subscribes to a group of notifications. Wait returns
// once there are notifications. Poll of the Conn then passes them, one at a time, to a function (handle in this
// example):
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
// Only one goroutine at a time may use a Conn, a request or an answer. Several goroutines may use a KernelSocket at
// once, but only one of these goroutines may call Send. Wait does not block the other methods.
//
// # Errors
//
// The errors are:
//
//   - *AckError: the kernel refused a request. It has the errno, and the explanation and offset of
//     the extended acknowledgement.
//   - ErrInterrupted: every attempt of a dump was interrupted, because the objects kept changing.
//   - ErrMalformed: an answer or attribute cannot be read.
//   - *SizeError: a datagram is too large, and was not sent.
//   - ErrUnsupported: Dial returns it on systems other than Linux.
//
// All other errors are those of the system calls. ENOBUFS means that the kernel had to drop
// datagrams. The datagrams that were received before and after this error are valid.
package netlink
