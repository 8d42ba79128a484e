// SPDX-License-Identifier: Apache-2.0

// Package nflog reads the packets that nftables rules log to an nflog group: for each packet the
// prefix of the rule, the interfaces, and fields of the headers.
//
//	nft rule "log prefix ... group N" ──▶ nfnetlink_log ──▶ Follow ──▶ Entry
//
// # Usage
//
//	err := nflog.Follow(ctx, nflog.Config{Group: 7}, func(e nflog.Entry) error { fmt.Println(e); return nil })
//
// # Concurrency
//
// Follow makes all calls on its caller's goroutine. In a network namespace, only one socket at a time
// can follow a group.
//
// # Errors
//
// Follow returns the error of its context, that of the callback, or that of the kernel: EPERM if
// another socket follows the group, or without CAP_NET_ADMIN.
package nflog
