// SPDX-License-Identifier: Apache-2.0

// Package nflog follows what rules of nftables log to an nflog group: of each packet the rule's
// prefix, the interfaces, and what its headers say.
//
//	nft rule "log prefix ... group N" ──▶ nfnetlink_log ──▶ Follow ──▶ Entry
//
// # Usage
//
//	err := nflog.Follow(ctx, nflog.Config{Group: 7}, func(e nflog.Entry) error { fmt.Println(e); return nil })
//
// # Concurrency
//
// Follow calls back from the goroutine that called it. A group has one follower on a node at a
// time.
//
// # Errors
//
// Follow returns the error of its context, that of the callback, or that of the kernel: EPERM where
// another process follows the group, and without CAP_NET_ADMIN.
package nflog
