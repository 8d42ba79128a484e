// SPDX-License-Identifier: Apache-2.0

// Package netns makes throwaway network namespaces and small topologies of veth
// pairs in them, as root or as an ordinary user. Kernel tests run in them, and so does
// the demo. A namespace has no way out: nothing but what its maker put in.
//
// # Usage
//
// A program that is to work without root calls EnsureRoot first: it runs the program
// once more as root of a user namespace of its own. Tests call nstest.Main instead.
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
//	err = web.NS.Do(func() error { // any socket made in here is the workload's
//		ln, err = net.Listen("tcp", "10.0.0.1:80")
//		return err
//	})
//
// A workload reaches everything through a link-local gateway that nobody owns: it has a
// permanent neighbour entry with the MAC of the host's side, so that neither proxy ARP nor
// an address on the host is needed.
//
//	node ───── cali1 ══ veth ══ eth0 ───── workload   10.0.0.1/32, 2001:db8::1/128
//	                                                  default via 169.254.1.1 / fe80::1 dev eth0 onlink
//
// # Concurrency
//
// All functions, and all methods of NS, may be called from any number of goroutines. Each switches
// namespace on a thread of its own, which dies afterwards: the caller's thread never changes.
//
// # Errors
//
// Errors wrap the kernel's errno. Where the system is not Linux everything returns
// an error that is errors.ErrUnsupported.
package netns
