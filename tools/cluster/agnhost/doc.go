// SPDX-License-Identifier: Apache-2.0

// Command agnhost is an SCTP emulator for a kernel without SCTP sockets. It replaces agnhost, the
// test program of the Kubernetes end-to-end tests: it emulates SCTP over raw sockets, and runs the
// real agnhost for everything else.
//
// A result that was measured with it proves how a node filters, tracks and translates SCTP packets.
// It proves nothing about an SCTP implementation.
//
// # Usage
//
// Install the emulator as /agnhost in a container image, and the real agnhost beside it as
// /agnhost.real. The emulator finds the real agnhost at its own path with ".real" appended. The
// emulator needs CAP_NET_RAW. Three commands differ:
//
//	agnhost connect HOST:PORT --protocol=sctp --timeout=3s
//	agnhost porter                       with SERVE_SCTP_PORT_N in the environment
//	agnhost netexec --sctp-port N        with the SCTP commands hostname, echo, clientip and serverport
//
// The emulator looks for these commands only in the first argument. For anything else, it executes
// the real agnhost in its place, with the same arguments and environment. The output and exit codes
// are the same as with the real agnhost. If a server serves other protocols too, the real agnhost
// runs as a child without the SCTP part. The emulator forwards signals to the child, ends with its
// exit code, and reaps orphans, so it may be process 1 of a container.
//
// # Packets
//
// Packets have SCTP's checksum, CRC32c. Receivers drop packets with a wrong checksum. The client
// makes an association, sends its data, and waits for data:
//
//	client                                server
//	   | INIT ---------------------------->  |
//	   |  <---------------------- INIT-ACK   |  or ABORT: connection refused
//	   | COOKIE-ECHO, DATA --------------->  |
//	   |  <-------- COOKIE-ACK, SACK, DATA   |  or ABORT: EOF
//	   | ABORT --------------------------->  |
//
// The ABORT at the end replaces a shutdown, so connection tracking soon removes the association.
// Both families work. Every raw socket of a network namespace receives all packets. So each server
// claims its port by an abstract Unix socket; a server sends ABORT only for ports that no server
// claims.
//
// These parts of SCTP are not emulated:
//
//   - shutdown, heartbeats, several addresses, several streams, fragments, windows and congestion
//     control;
//   - a server that sends first: porter sends its data when the client's data arrives;
//   - the signature and the lifetime of the state cookie;
//   - back-off: the client sends INIT and COOKIE-ECHO again every 3 s, the initial timeout of
//     Linux;
//   - most ICMP errors: only "protocol unreachable" and, for IPv6, "unrecognized next header" end
//     the attempt;
//   - the request /dial?protocol=sctp of netexec: the real agnhost serves it, and fails without
//     SCTP sockets.
//
// If no server of the emulator runs in a network namespace, the kernel answers INIT with an ICMP
// error. A kernel with SCTP would send ABORT. So the client prints "protocol not available" instead
// of "connection refused".
//
// # Concurrency
//
// A server has one goroutine for each family, and one for the child and for signals. They share no
// mutable state.
//
// # Errors
//
// The client prints OTHER, DNS or TIMEOUT and ends with exit code 1. It prints TIMEOUT only if the
// time is over: a missing capability is an error that starts with OTHER. A server that cannot open
// its sockets ends with exit code 1.
package main
