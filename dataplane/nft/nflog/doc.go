// SPDX-License-Identifier: Apache-2.0

// Package nflog reads packets that nftables rules log to an nflog group. For each packet, it
// returns the log prefix of the rule, the packet's interfaces, and fields of its headers.
//
//	nft rule "log prefix ... group N" ──▶ nfnetlink_log ──▶ Follow ──▶ Entry
//
// # Usage
//
//	err := nflog.Follow(ctx, nflog.Config{Group: 7}, func(e nflog.Entry) error { fmt.Println(e); return nil })
//
// # Concurrency
//
// Follow makes all calls on the goroutine of its caller. In a network namespace, only one socket at
// a time can follow a group.
//
// # Errors
//
// Follow returns the error of its context, of the callback or of the kernel. The kernel's error is
// EPERM if another socket follows the group, or if the process lacks CAP_NET_ADMIN.
package nflog
