// SPDX-License-Identifier: Apache-2.0

// Package netns makes temporary network namespaces and small topologies of veth pairs in them, as
// root or as an ordinary user. Kernel tests and the demo use them. A namespace has no connections
// to others except those that its creator adds.
//
// # Usage
//
// To work without root, a program calls EnsureRoot first, which runs the program once more as root
// of a new user namespace. Tests call nstest.Main instead.
//
//	ran, code, err := netns.EnsureRoot()
//	if err != nil {
//		return err
//	}
//	if ran {
//		os.Exit(code)
//	}
//	node, err := netns.New()
//	...
//	defer node.Close()
//	web, err := netns.NewWorkload(node, "cali1", netip.MustParseAddr("10.0.0.1"))
//	...
//	defer web.NS.Close()
//	err = web.NS.Do(func() error { // sockets that are opened here belong to the workload
//		ln, err = net.Listen("tcp", "10.0.0.1:80")
//		return err
//	})
//
// The default gateway of a workload is a link-local address that no interface has. In the workload,
// a permanent neighbour entry maps this address to the MAC address of the host's interface. So the
// host needs neither proxy ARP nor the address.
//
//	node ───── cali1 ══ veth ══ eth0 ───── workload   10.0.0.1/32, 2001:db8::1/128
//	                                                  default via 169.254.1.1 / fe80::1 dev eth0 onlink
//
// # Concurrency
//
// All functions, and all methods of NS, are safe for concurrent use. Each call starts a new thread,
// changes the namespace of that thread, and ends it. The caller's thread stays in its namespace.
//
// # Errors
//
// Errors wrap the kernel's errno. On systems other than Linux, everything returns an error that is
// errors.ErrUnsupported.
package netns
