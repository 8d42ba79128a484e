// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package apiserver

import "syscall"

// endsWithParent has no effect here: only Linux has such an attribute.
func endsWithParent() *syscall.SysProcAttr { return nil }

// loopback returns the only IPv4 address that loopback has everywhere.
func loopback() string { return "127.0.0.1" }
