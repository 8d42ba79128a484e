// SPDX-License-Identifier: Apache-2.0

// Command portforward keeps an nftables table that forwards ports of this machine to other
// machines, such as virtual machines. It is an example for programs that have no network policy,
// and need only the packages dataplane/nft/ruleset and dataplane/nft/applier of the library.
//
//	file of forwards ─▶ ruleset.Table ─▶ applier.Applier ─▶ nf_tables
//	SIGHUP: read it again                    ▲ Watch: undoes changes by other processes
//
// # Usage
//
// The program needs CAP_NET_ADMIN, and forwarding must be enabled on the machine. Each line of the
// file has a protocol, a port of this machine, and the address and port to which the port is
// forwarded:
//
//	# protocol  port  to
//	tcp         8080  10.0.0.2:80
//	udp         53    [2001:db8::2]:53
//
//	portforward FILE            # until it is interrupted; the kernel keeps the table
//	portforward --remove FILE   # deletes the table
//
// Connections to any address of this machine are forwarded, except connections of processes on this
// machine. The other machine sees the client's address as the source. Therefore the other machine
// must route its replies through this machine.
//
// A change of the file affects new connections only: established connections keep their
// translation. To end established connections, use a conntrack.Sweeper.
//
// # Concurrency
//
// Only one process at a time may keep a table. From Linux 6.9 on, the kernel refuses changes by a
// second process.
//
// # Errors
//
// At the start, an error in the file or of the kernel ends the program with exit code 1. Later,
// errors are logged. An invalid file changes nothing. If the kernel refuses changes, the program
// tries them again each second.
package main
