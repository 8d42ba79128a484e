// SPDX-License-Identifier: Apache-2.0

// Package netlink carries datagrams to the kernel and back over netlink, for all families. It does not
// interpret them.
//
// # Usage
//
//	s, err := netlink.Open(netlink.Config{Family: unix.NETLINK_ROUTE})
//	...
//	err = s.Send(request)
//	n, err := s.Receive(buf)
//	for errors.Is(err, unix.EAGAIN) {
//		if err = s.Wait(); err == nil {
//			n, err = s.Receive(buf)
//		}
//	}
//
// # Concurrency
//
// A Socket has no state of its own but the file: all methods may be called from several goroutines.
// Wait does not block Receive or Send.
//
// # Errors
//
// Those of the system calls, named by the method. A Receive that finds nothing returns EAGAIN. After
// ENOBUFS, the kernel had to drop datagrams; those before and after the gap are valid.
package netlink
