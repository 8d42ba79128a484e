// SPDX-License-Identifier: Apache-2.0

// Command portforward keeps an nftables table that forwards ports of this machine to other machines, like a program for
// virtual machines or containers. Of the library, it uses only the packages dataplane/nft/ruleset and
// dataplane/nft/applier: it has no policy, no endpoints and no graph.
//
//	file of forwards ─▶ ruleset.Table ─▶ applier.Applier ─▶ nf_tables
//	SIGHUP: read it again                    ▲ Watch: what another process changed is restored
//
// # Usage
//
// It needs CAP_NET_ADMIN, and forwarding has to be enabled on the machine. A line of the file is a
// protocol, a port of this machine, and the address and port to which it is forwarded:
//
//	# protocol  port  to
//	tcp         8080  10.0.0.2:80
//	udp         53    [2001:db8::2]:53
//
//	portforward FILE            # until it is interrupted; the kernel keeps the table
//	portforward --remove FILE   # deletes the table
//
// Connections to any address of this machine are forwarded, but not those of its own processes. The
// other machine sees the client's address, so its replies must come back through this one.
//
// A change of the file concerns new connections: established ones keep their translation. To end
// them, use a conntrack.Sweeper.
//
// # Concurrency
//
// One process at a time may keep a table. From Linux 6.9 on, the kernel refuses a second one.
//
// # Errors
//
// At the start, an error in the file or of the kernel ends the program with exit code 1. Later,
// errors are logged: an invalid file changes nothing, and changes that the kernel refused are tried
// again each second.
package main
